/* The input of a fuzz target as files in memory. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char fuzz_folder[] = "/dev/shm/telegrad-fuzz-XXXXXX";
static char fuzz_path[2][64];

static inline void fuzz_clean_up(void)
{
    for (int i = 0; i < 2; i++)
        unlink(fuzz_path[i]);
    rmdir(fuzz_folder);
}

/* Fill file 0 or 1 with these bytes; returns its path. */
static inline const char *fuzz_file(int number, const uint8_t *bytes, size_t len)
{
    if (!fuzz_path[0][0]) {
        if (!mkdtemp(fuzz_folder) || atexit(fuzz_clean_up) != 0)
            abort();
        for (int i = 0; i < 2; i++)
            snprintf(fuzz_path[i], sizeof fuzz_path[i], "%s/%d", fuzz_folder, i);
    }
    FILE *file = fopen(fuzz_path[number], "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0)
        abort();
    return fuzz_path[number];
}

#endif
