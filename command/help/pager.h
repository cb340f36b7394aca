/* Shows long texts in the user's pager: $PAGER, or less, if standard output is a terminal. */
#ifndef TG_CLI_PAGER_H
#define TG_CLI_PAGER_H

#include <stdio.h>

typedef struct help_pager {
    const char *command;
    FILE *text; /* what is printed; NULL: it goes straight to standard output */
    int out;    /* standard output as it was */
} help_pager;

/* From now on use no pager: a launcher such as mpirun gives a process a terminal, wherever its
 * output goes. */
void help_pager_disable(void);
/* What is printed to stdout from here on is kept for the pager. Without a terminal or with an empty
 * $PAGER, nothing changes. */
help_pager help_pager_begin(void);
/* Show it, and wait until the user has read it. If the pager cannot be started, it is printed. */
void help_pager_end(help_pager *p);

#endif
