/* Shows long texts in the user's pager: $PAGER, or less, if standard output is a terminal. */
#ifndef TG_CLI_PAGER_H
#define TG_CLI_PAGER_H

#include <sys/types.h>

typedef struct help_pager {
    pid_t process; /* 0: there is none, and what is printed goes straight to standard output */
    int out;       /* standard output as it was */
    void (*broken)(int), (*interrupt)(int); /* handlers as they were */
} help_pager;

/* What is printed to stdout from here on goes to the pager. Without a terminal, with an empty
 * $PAGER, or if the pager cannot be started, nothing changes. */
help_pager help_pager_begin(void);
/* Wait until the user has read it. */
void help_pager_end(help_pager *p);

#endif
