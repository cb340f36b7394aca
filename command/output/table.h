/* A table of text: columns as wide as their widest cell. */
#ifndef TG_CLI_TABLE_H
#define TG_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table;

/* `columns` of 1 to 16. Returns NULL when out of memory. */
struct table *table_create(size_t columns);
void table_destroy(struct table *t); /* NULL is fine */

/* Start a row; its cells follow from left to right, each copied. The first row is the heading.
 * Cells that are not given are empty. Out of memory: table_print says so. */
void table_row(struct table *t);
void table_cell(struct table *t, const char *text);

/* The rest of the row in one text, to the left; it may stand out over the last column. */
void table_rest(struct table *t, const char *text);

/* No line longer than `most` characters: the cells of the first column are cut ("...") to 12
 * characters at the least; where that does not suffice each row is printed as lines of its own, a
 * heading and a cell on each. 0, as it begins: as wide as it gets. Before the first table_print. */
void table_fit(struct table *t, size_t most);

/* Print the rows that were not printed yet, so that a long table may come out row by row: columns
 * are as wide as their widest cell so far. The first column to the left, the others to the right, a
 * rule under the heading. Returns 0, or -1 if memory ran out on the way or `file` could not be
 * written. */
int table_print(struct table *t, FILE *file);

#endif
