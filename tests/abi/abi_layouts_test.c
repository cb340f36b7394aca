/* Compares the headers of the first version with today's, as listed by abi_layouts.py. */
#include "abi/abi_layouts.h"

#include <stdio.h>
#include <string.h>

static int is_padded(const abi_row *row)
{
    if (!row->grows || row->padding == 0)
        return 0;
    printf("%s: %zu bytes of padding at the end: order the members so that there are none\n",
           row->name, row->padding);
    return 1;
}

static int compare(const abi_row *first, const abi_row *now)
{
    if (strcmp(first->name, now->name) != 0) {
        printf("%s is compared with %s\n", first->name, now->name);
        return 1;
    }
    if (is_padded(now))
        return 1;
    if ((now->grows ? first->where <= now->where : first->where == now->where) &&
        first->size == now->size)
        return 0;
    printf("%s: %zu, %zu in the first version, %zu, %zu now\n", first->name, first->where,
           first->size, now->where, now->size);
    return 1;
}

int main(void)
{
    int failed = abi_first_rows != abi_now_rows;
    for (size_t i = 0; i < abi_first_rows && i < abi_now_rows; i++)
        failed += compare(&abi_first[i], &abi_now[i]);
    for (size_t i = 0; i < abi_new_rows; i++)
        failed += is_padded(&abi_new[i]);
    printf("%zu sizes, places and values, %zu new sizes, %d wrong\n", abi_first_rows, abi_new_rows,
           failed);
    return failed != 0;
}
