/* What abi_layouts.py finds in the headers of a version. */
#ifndef TG_TESTS_ABI_LAYOUTS_H
#define TG_TESTS_ABI_LAYOUTS_H

#include <stddef.h>

typedef struct abi_row {
    const char *name;   /* "sizeof(tg_wait)", "tg_wait.rank", "TG_E_ARG" */
    size_t where, size; /* size and alignment; or offset and size; or the value */
    int grows;          /* of a structure: whether it can grow */
    size_t padding;     /* of a structure: bytes after its last member */
} abi_row;

/* abi_new: sizes of the structures that the first version lacks. */
extern const abi_row abi_first[], abi_now[], abi_new[];
extern const size_t abi_first_rows, abi_now_rows, abi_new_rows;

#endif
