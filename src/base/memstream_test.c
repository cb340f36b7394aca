/* Streams into memory: what they hold, and that they report each allocation that fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/memstream.h"
#include <stdlib.h>
#include <string.h>

static long left = -1; /* allocations that succeed before one fails; below 0: all succeed */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);

static bool has_room(void)
{
    return left < 0 || left-- > 0;
}

void *__wrap_malloc(size_t size)
{
    return has_room() ? __real_malloc(size) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return has_room() ? __real_realloc(old, bytes) : NULL;
}

FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return has_room() ? __real_fopencookie(cookie, mode, functions) : NULL;
}

enum { LINES = 20000 };

static tg_status write_lines(int lines, long allocations, char **text_p, size_t *len_p)
{
    left = allocations;
    FILE *f = tg__memstream_open(text_p, len_p);
    for (int i = 0; f != NULL && i < lines; i++)
        fprintf(f, "%06d\n", i);
    const tg_status status = tg__memstream_close(f, text_p);
    left = -1;
    return status;
}

static void assert_lines(const char *text, size_t len, int lines)
{
    char line[16];
    assert_int_equal(len, 7 * lines);
    assert_int_equal(strlen(text), len);
    for (int i = 0; i < lines; i++) {
        snprintf(line, sizeof line, "%06d\n", i);
        assert_memory_equal(text + 7 * i, line, 7);
    }
}

static void holds_what_was_written(void **state)
{
    static const int lines[] = {0, 1, 2, 3, 1000, LINES};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(lines); i++) {
        char *text;
        size_t len = 77;
        assert_int_equal(write_lines(lines[i], -1, &text, &len), TG_OK);
        assert_lines(text, len, lines[i]);
        free(text);
    }
}

/* One allocation fails, whichever it is; those after it succeed again. A text is whole or none. The
 * last allocation only gives back what is too much. */
static void reports_no_memory(void **state)
{
    (void)state;
    static const int lines[] = {0, 3, LINES};
    for (size_t i = 0; i < TG_COUNT(lines); i++) {
        tg_status status = TG_E_NOMEM;
        long k = 0;
        for (; status != TG_OK; k++) {
            char *text = (char *)1;
            size_t len = 77;
            status = write_lines(lines[i], k, &text, &len);
            if (status == TG_OK) {
                assert_lines(text, len, lines[i]);
            } else {
                assert_int_equal(status, TG_E_NOMEM);
                assert_null(text);
                assert_int_equal(len, 0);
            }
            free(text);
        }
        assert_true(k > 3); /* its own, the stream, the text; that which shrinks it */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds_what_was_written),
                                       cmocka_unit_test(reports_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
