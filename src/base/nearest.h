/* The word that was probably meant by a misspelled one, for messages: did you mean "density"? */
#ifndef TG_BASE_NEAREST_H
#define TG_BASE_NEAREST_H

#include "telegrad/base.h"

#define TG__NEAREST_WORD 48 /* bytes of a word and its zero; longer ones are never near */

typedef struct tg__nearest {
    const char *wanted;          /* borrowed */
    size_t edits;                /* between wanted and word */
    char word[TG__NEAREST_WORD]; /* the nearest one so far; "": none is near */
    char hint[TG__NEAREST_WORD + 32];
} tg__nearest;

/* Offer words one after the other. Near is a word that `wanted` becomes by one edit, by two if the
 * longer of both has 5 letters or more, by three from 9 on; or that `wanted`, of 3 letters or more,
 * begins. An edit changes, adds or removes a letter, or swaps two neighbours; capitals count as
 * small letters. The fewest edits win, then the word offered first. Threads: any, each with its own
 */
void tg__nearest_begin(tg__nearest *n, const char *wanted);
void tg__nearest_offer(tg__nearest *n, const char *word, size_t len);
/* The words of a list "a|b|c"; NULL: none. */
void tg__nearest_offer_list(tg__nearest *n, const char *words);

/* `did you mean "density"? ` or "", to stand in a message. Lives in n. */
const char *tg__nearest_hint(tg__nearest *n);

#endif
