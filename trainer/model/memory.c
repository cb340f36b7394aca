#include "trainer/model/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The sum of the numbers after either of two names ("MemAvailable:", "file ") at the start of a
 * line, in the file's unit. Negative: the file or the names do not exist. */
static double sum_of(const char *path, const char *first, const char *second)
{
    FILE *file = fopen(path, "r");
    char line[256];
    double sum = -1;
    while (file && fgets(line, sizeof line, file)) {
        const char *name = strncmp(line, first, strlen(first)) == 0     ? first
                           : strncmp(line, second, strlen(second)) == 0 ? second
                                                                        : NULL;
        uint64_t n;
        if (name && sscanf(line + strlen(name), "%" SCNu64, &n) == 1)
            sum = (sum > 0 ? sum : 0) + (double)n;
    }
    if (file)
        fclose(file);
    return sum;
}

static double system_left(void)
{
    const double kilobytes = sum_of("/proc/meminfo", "MemAvailable:", "SwapFree:");
    return kilobytes < 0 ? (double)INFINITY : kilobytes * 1024;
}

/* Considers the limit of this control group, not those of its parents. */
static double group_left(void)
{
    char line[1024], path[1200];
    FILE *file = fopen("/proc/self/cgroup", "r");
    const char *group = NULL;
    while (file && !group && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        group = strncmp(line, "0::", 3) == 0 ? line + 3 : NULL;
    }
    if (file)
        fclose(file);
    if (!group)
        return (double)INFINITY;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    const double most = sum_of(path, "", "\n");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    const double used = sum_of(path, "", "\n");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
    const double cached = sum_of(path, "inactive_file ", "active_file ");
    if (most < 0 || used < 0) /* "max": no limit */
        return (double)INFINITY;
    return most - used + (cached > 0 ? cached : 0);
}

static double address_space_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return (double)INFINITY;
    const double pages = sum_of("/proc/self/statm", "", "\n");
    return (double)limit.rlim_cur - (pages > 0 ? pages : 0) * (double)sysconf(_SC_PAGESIZE);
}

double memory_available(void)
{
    const double left = fmin(system_left(), fmin(group_left(), address_space_left()));
    return left > 0 ? left : 0;
}

tg_status memory_check(double bytes, size_t networks, double available)
{
    const double all = bytes * (double)networks;
    if (all <= available)
        return TG_OK;
    if (networks == 1)
        return tg_fail(TG_E_NOMEM, "the network needs %.4g GB of memory, and %.4g GB are available",
                       bytes / 1e9, available / 1e9);
    return tg_fail(TG_E_NOMEM,
                   "the network needs %.4g GB of memory on each of the %zu workers of this "
                   "process, %.4g GB in all, and %.4g GB are available",
                   bytes / 1e9, networks, all / 1e9, available / 1e9);
}
