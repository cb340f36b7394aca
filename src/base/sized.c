#include "base/sized.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define STRIDE 8 /* alignment of the entries of arrays */

static size_t size_of(const void *structure)
{
    size_t size;
    memcpy(&size, structure, sizeof size);
    return size;
}

tg_status tg__sized_room(const char *what, const void *to, size_t first)
{
    const size_t given = size_of(to);
    if (given < first || given > TG__STRUCT_MAX)
        return tg_fail(TG_E_ARG, "%s->struct_size=%zu: allowed: %zu to %d", what, given, first,
                       TG__STRUCT_MAX);
    return TG_OK;
}

/* Check bytes [known, given): members of a newer version. */
static tg_status check_tail(const char *what, const uint8_t *bytes, size_t known, size_t given)
{
    for (size_t i = known; i < given; i++)
        if (bytes[i] != 0)
            return tg_fail(TG_E_ARG,
                           "%s: byte %zu of %zu is %u: telegrad %s knows the first %zu bytes; the "
                           "others must be 0",
                           what, i, given, bytes[i], tg_version(), known);
    return TG_OK;
}

tg_status tg__sized_check(const char *what, const void *from, size_t size, size_t first)
{
    TG_TRY(tg__sized_room(what, from, first));
    return check_tail(what, from, size, size_of(from));
}

static void copy_in(void *own, size_t size, const void *from, size_t given)
{
    memset(own, 0, size);
    memcpy(own, from, TG__MIN(given, size));
    memcpy(own, &size, sizeof size);
}

static void copy_out(void *to, size_t given, const void *own, size_t size)
{
    memcpy((uint8_t *)to + sizeof given, (const uint8_t *)own + sizeof given,
           TG__MIN(given, size) - sizeof given);
    if (given > size)
        memset((uint8_t *)to + size, 0, given - size);
}

tg_status tg__sized_in(const char *what, void *own, size_t size, size_t first, const void *from)
{
    TG_TRY(tg__sized_check(what, from, size, first));
    copy_in(own, size, from, size_of(from));
    return TG_OK;
}

void tg__sized_out(void *to, const void *own, size_t size)
{
    copy_out(to, size_of(to), own, size);
}

tg_status tg__sized_array(const char *what, const void *array, size_t first)
{
    TG_TRY(tg__sized_room(what, array, first));
    if (size_of(array) % STRIDE != 0)
        return tg_fail(TG_E_ARG, "%s->struct_size=%zu: allowed: multiples of %d", what,
                       size_of(array), STRIDE);
    return TG_OK;
}

void tg__sized_array_out(void *array, const void *own, size_t size, size_t count)
{
    const size_t given = count > 0 ? size_of(array) : 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = (uint8_t *)array + i * given;
        memcpy(to, &given, sizeof given);
        copy_out(to, given, (const uint8_t *)own + i * size, size);
    }
}

tg_status tg__sized_array_in(const char *what, void *own, size_t size, size_t first,
                             const void *array, size_t count)
{
    TG_TRY(tg__sized_array(what, array, first));
    const size_t given = size_of(array);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = (const uint8_t *)array + i * given;
        char entry[128];
        snprintf(entry, sizeof entry, "%s[%zu]", what, i);
        TG_TRY(check_tail(entry, from, size, given));
        copy_in((uint8_t *)own + i * size, size, from, given);
    }
    return TG_OK;
}
