/* Public structures that can grow: the rule is in telegrad/base.h, "Structures that grow". */
#ifndef TG_BASE_SIZED_H
#define TG_BASE_SIZED_H

#include "telegrad/base.h"

/* The smallest struct_size accepted: up to the last member of the structure's first version. This
 * member never changes, whatever is added after it. */
#define TG__FIRST_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* The largest struct_size that is accepted and read. */
#define TG__STRUCT_MAX 4096

/* In these functions:
 * what   names the structure in messages: "tg_reducer_create: config"
 * first  smallest struct_size, TG__FIRST_SIZE
 * size   sizeof of the structure in this library */

/* Check a structure that the caller fills and the library uses in place. *from begins with the
 * structure's struct_size.
 * Errors  TG_E_ARG: struct_size is below first or above TG__STRUCT_MAX; or it is above size, and
 *         not all bytes from there on are 0: they are members that this library does not know */
TG_NODISCARD tg_status tg__sized_check(const char *what, const void *from, size_t size,
                                       size_t first);

/* The same for a structure that is copied: *own (size) is set to the caller's values, with zero for
 * members that the caller's version lacks. Its struct_size becomes size.
 * Errors  as above; *own is unchanged */
TG_NODISCARD tg_status tg__sized_in(const char *what, void *own, size_t size, size_t first,
                                    const void *from);

/* Check a structure that the library will fill. Members other than struct_size are ignored.
 * Errors  TG_E_ARG: struct_size is below first or above TG__STRUCT_MAX */
TG_NODISCARD tg_status tg__sized_room(const char *what, const void *to, size_t first);

/* Fill it: members of the caller's version are set from own; members that only a newer version has
 * are set to zero. Its struct_size, which was checked, does not change. */
void tg__sized_out(void *to, const void *own, size_t size);

/* Check an array of such structures. The first entry's struct_size is the distance between entries.
 * Errors  TG_E_ARG: as tg__sized_room; or it is not a multiple of 8 */
TG_NODISCARD tg_status tg__sized_array(const char *what, const void *array, size_t first);
/* Fill the array with `count` structures own, each of `size` bytes; each gets the struct_size of
 * the first entry. */
void tg__sized_array_out(void *array, const void *own, size_t size, size_t count);
/* Copy the caller's array to own. Only the first entry's struct_size counts.
 * Errors  as tg__sized_array and tg__sized_check; own is undefined then */
TG_NODISCARD tg_status tg__sized_array_in(const char *what, void *own, size_t size, size_t first,
                                          const void *array, size_t count);

#endif
