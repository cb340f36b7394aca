/* Settings as text, a line "key=value" for each: ranks compare theirs with each other, and a job
 * its own with a checkpoint's. */
#ifndef TG_BASE_SETTINGS_H
#define TG_BASE_SETTINGS_H

#include "telegrad/base.h"

typedef struct tg__settings {
    const char *text; /* (len) */
    size_t len;
} tg__settings;

/* The first difference of two. */
typedef struct tg__unlike {
    bool has[2];       /* whether it is in each of them */
    char text[2][256]; /* the line, cut to what differs: of specs with other names, these; with the
                        * same one, "key=name:" and the first of their keys that does. The key alone
                        * where it is missing */
} tg__unlike;

/* The line that begins with `start`, without its newline; its length is 0 if there is none. */
tg__settings tg__settings_find(tg__settings s, const char *start);
/* Compare line by line. Returns true if they differ.
 * except  ignore lines that begin with this; NULL: none */
bool tg__settings_differ(tg__settings a, tg__settings b, const char *except, tg__unlike *unlike_p);

#endif
