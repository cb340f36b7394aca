/* For tests: run the whole test program once for each instruction set level of this machine. */
#ifndef TESTS_EACH_LEVEL_H
#define TESTS_EACH_LEVEL_H

#include "kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEVEL_MISSING = 77 };

/* Forks a child for each level in turn, with TG_CPU set to it, and returns true there: go on with
 * the tests, and return their number of failures from main. In this process it returns false at the
 * end, and *failed is the number of levels that failed. Children are forked, not started anew,
 * which emulators support, too; so nothing may have asked for a kernel before. */
static inline bool each_level_child(int *failed)
{
    *failed = 0;
    int ran = 0;
    for (size_t i = 0; tg__kernel_levels[i]; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            setenv("TG_CPU", tg__kernel_levels[i], 1);
            if (!tg__kernel_level(tg__kernel_levels[i]))
                _exit(LEVEL_MISSING);
            fprintf(stderr, "TG_CPU=%s\n", tg_cpu_level());
            if (strcmp(tg_cpu_level(), tg__kernel_levels[i]) != 0)
                _exit(1); /* something had asked for a kernel before */
            return true;
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child)
            (*failed)++;
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != LEVEL_MISSING) {
            ran++;
            *failed += status != 0;
        }
    }
    *failed += ran == 0;
    return false;
}

/* Unless TG_CPU is set, returns in children only; this process exits with the number of levels that
 * failed. Call it first in main. */
static inline void each_level(void)
{
    int failed;
    const char *set = getenv("TG_CPU");
    if ((!set || !*set) && !each_level_child(&failed))
        exit(failed);
}

#endif
