/* For tests: run the whole test program once for every instruction set level that this machine has.
 */
#ifndef TESTS_EACH_LEVEL_H
#define TESTS_EACH_LEVEL_H

#include "kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start this program again with each level; returns the number of levels that failed. */
static inline int each_level_count(char **argv)
{
    static const char *const levels[] = {"ref", "avx2", "avx512"};
    int failed = 0;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (!tg__kernel_level(levels[i]))
            continue;
        fprintf(stderr, "TG_CPU=%s\n", levels[i]);
        pid_t child = fork();
        if (child == 0) {
            setenv("TG_CPU", levels[i], 1);
            execv("/proc/self/exe", argv);
            _exit(127);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            failed++;
    }
    return failed;
}

/* Unless TG_CPU is set: do so, and exit with that number. Call it first in main. */
static inline void each_level(char **argv)
{
    const char *set = getenv("TG_CPU");
    if (!set || !*set)
        exit(each_level_count(argv));
}

#endif
