/* A table of text; each column is as wide as its widest cell. */
#ifndef TG_CLI_TABLE_H
#define TG_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table;

/* Create a table of 1 to 16 columns. Returns NULL when out of memory. */
struct table *table_create(size_t columns);
void table_destroy(struct table *t); /* NULL is fine */

/* Start a row. Its cells follow from left to right and are copied; missing cells are empty. The
 * first row is the heading. If memory runs out, table_print reports it. */
void table_row(struct table *t);
void table_cell(struct table *t, const char *text);

/* The rest of the row as one text, aligned left; it may extend past the last column. */
void table_rest(struct table *t, const char *text);

/* Limit lines to `most` characters: cells of the first column are cut ("...") down to 12
 * characters. If that is not enough, each row is printed as several lines, each a heading and a
 * cell. 0, the initial value: no limit. Call it before the first table_print. */
void table_fit(struct table *t, size_t most);

/* Print the rows that have not been printed yet, so that a long table can be printed row by row; a
 * column is as wide as its widest cell so far. The first column is aligned left, the others right,
 * with a rule below the heading. Returns 0, or -1 if memory ran out earlier or `file` could not be
 * written. */
int table_print(struct table *t, FILE *file);

#endif
