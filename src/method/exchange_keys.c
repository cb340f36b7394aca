/* Choices and help of the key `exchange`, from what the exchanges say about themselves. */
#include "base/mem.h"
#include "method/method_keys.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

char tg__exchange_choices[TG__SUMS_ALL + 1][TG__CHOICES_BYTES];
char tg__exchange_help[TG__SUMS_ALL + 1][TG__HELP_BYTES];

/* Append a choice and its help. What finds no room is left out, so it can be neither named nor
 * chosen. */
static void add(unsigned sends, const char *name, const char *brief)
{
    char *choices = tg__exchange_choices[sends], *help = tg__exchange_help[sends];
    const size_t at = strlen(choices), to = strlen(help);
    const char *bar = at == 0 ? "" : "|", *semicolon = at == 0 ? "" : "; ";
    const int more = snprintf(choices + at, TG__CHOICES_BYTES - at, "%s%s", bar, name);
    if (at + (size_t)more >= TG__CHOICES_BYTES) {
        choices[at] = '\0';
        return;
    }
    snprintf(help + to, TG__HELP_BYTES - to, "%s%s: %s", semicolon, name, brief);
}

static void fill(void)
{
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (unsigned sends = 1; sends <= TG__SUMS_ALL; sends++) {
        /* first those that suit most frames; for dense vectors the order of the list will do */
        const unsigned first = sends & TG__SUMS_DENSE ? TG__SUMS_ALL : TG__SUMS_WHOLE;
        for (size_t i = 0; i < 2 * count; i++) {
            const tg__exchange_ops *x = all[i % count];
            if ((x->sums & sends) && !x->apart && (i < count) == ((x->sums & first) != 0))
                add(sends, x->entry.name, x->brief);
        }
        add(sends, "auto", "the one predicted to be fastest on the measured network");
        for (size_t i = 0; i < count; i++)
            if (all[i]->apart)
                add(sends, all[i]->entry.name, all[i]->brief);
    }
}

void tg__exchange_keys(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill);
}
