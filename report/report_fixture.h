/* A file for each test, and the start of records: what the report's tests share. */
#ifndef TG_REPORT_FIXTURE_H
#define TG_REPORT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START "{\"type\":\"start\",\"params\":250,\"batch\":4,\"method\":\"m\",\"seed\":1}\n"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/telegrad_report_XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A test with a file at `path`. */
#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)

#endif
