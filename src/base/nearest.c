/* Distance between words: the smallest number of edits, including swaps of neighbours (optimal
 * string alignment). */
#include "telegrad/tools.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

enum { FAR = TG_NEAREST_WORD, PREFIX_LEAST = 3 };

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* d[i][j]: edits from the first i letters of a to the first j of b; only three rows are kept. */
static size_t edits(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][TG_NEAREST_WORD];
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *swap = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            const bool same = small(a[i - 1]) == small(b[j - 1]);
            const size_t shorter = TG__MIN(above[j], row[j - 1]) + 1;
            row[j] = TG__MIN(shorter, above[j - 1] + !same);
            if (i > 1 && j > 1 && small(a[i - 1]) == small(b[j - 2]) &&
                small(a[i - 2]) == small(b[j - 1]))
                row[j] = TG__MIN(row[j], swap[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

static bool begins(const char *word, const char *with, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (small(word[i]) != small(with[i]))
            return false;
    return true;
}

void tg_nearest_begin(tg_nearest *n, const char *wanted)
{
    if (!n || !wanted)
        return;
    n->wanted = wanted;
    n->edits = FAR;
    n->word[0] = n->hint[0] = '\0';
}

void tg_nearest_offer(tg_nearest *n, const char *word, size_t len)
{
    if (!n || !word)
        return;
    const size_t wanted = strlen(n->wanted), longer = TG__MAX(wanted, len);
    if (wanted == 0 || longer >= TG_NEAREST_WORD)
        return;
    const size_t near = longer < 5 ? 1 : longer < 9 ? 2 : 3;
    size_t d = edits(n->wanted, wanted, word, len);
    if (d > near && wanted >= PREFIX_LEAST && len > wanted && begins(word, n->wanted, wanted))
        d = near;
    if (d > near || d >= longer || d >= n->edits)
        return;
    n->edits = d;
    memcpy(n->word, word, len);
    n->word[len] = '\0';
}

void tg_nearest_offer_list(tg_nearest *n, const char *words)
{
    for (const char *p = words; n && p && *p;) {
        const size_t len = strcspn(p, "|");
        tg_nearest_offer(n, p, len);
        p += len + (p[len] == '|');
    }
}

const char *tg_nearest_hint(tg_nearest *n)
{
    if (!n)
        return NULL;
    if (n->word[0])
        snprintf(n->hint, sizeof n->hint, "did you mean \"%s\"? ", n->word);
    return n->hint;
}
