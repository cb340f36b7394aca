/* For tests: a locale of UTF-8 with a decimal comma, made by localedef. Include after cmocka.h. */
#ifndef TESTS_COMMA_LOCALE_H
#define TESTS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enter it for the whole process. Returns false where it cannot be made (needs localedef and its
 * sources; Debian: libc-bin, locales). */
static inline bool comma_locale_enter(void)
{
    char folder[] = "/tmp/tg-locale-XXXXXX", command[160];
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/words 2>&1; test -d %s/de_DE.UTF-8",
             folder, folder, folder);
    const bool made = system(command) == 0;
    if (made) {
        setenv("LOCPATH", folder, 1);
        (void)setlocale(LC_ALL, "de_DE.UTF-8");
        unsetenv("LOCPATH");
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0 || strcmp(localeconv()->decimal_point, ",") != 0) {
        print_message("no locale with a decimal comma: localedef -i de_DE -f UTF-8 makes none\n");
        setlocale(LC_ALL, "C");
        return false;
    }
    return true;
}

static inline void comma_locale_leave(void)
{
    setlocale(LC_ALL, "C");
}

#endif
