#include "command/output/table.h"
#include "command/output/format.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 16

struct table {
    size_t columns, rows, room, next; /* next: column of the next cell to fill */
    size_t printed;                   /* rows printed so far */
    size_t most;                      /* characters per line; 0: no limit */
    struct row {
        char *cells[MAX_COLUMNS];
        bool rest; /* the last cell takes the rest of the row */
    } * row;
    bool failed;
};

struct table *table_create(size_t columns)
{
    struct table *t = calloc(1, sizeof *t);
    if (t)
        t->columns = columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
    return t;
}

void table_destroy(struct table *t)
{
    if (!t)
        return;
    for (size_t r = 0; r < t->rows; r++)
        for (size_t c = 0; c < t->columns; c++)
            free(t->row[r].cells[c]);
    free(t->row);
    free(t);
}

void table_row(struct table *t)
{
    t->next = 0;
    if (t->rows == t->room) {
        size_t room = t->room ? 2 * t->room : 8;
        void *grown = realloc(t->row, room * sizeof *t->row);
        if (!grown) {
            t->failed = true;
            t->next = t->columns; /* the cells of this row are dropped */
            return;
        }
        t->row = grown;
        t->room = room;
    }
    t->row[t->rows++] = (struct row){.rest = false};
}

void table_cell(struct table *t, const char *text)
{
    if (t->rows == 0 || t->next >= t->columns)
        return;
    char *copy = strdup(text);
    t->failed = t->failed || !copy;
    t->row[t->rows - 1].cells[t->next++] = copy;
}

void table_rest(struct table *t, const char *text)
{
    if (t->rows == 0 || t->next >= t->columns)
        return;
    table_cell(t, text);
    t->next = t->columns;
    t->row[t->rows - 1].rest = true;
}

/* Whether cell c takes the rest of its row. */
static bool is_rest(const struct table *t, size_t r, size_t c)
{
    return t->row[r].rest && (c + 1 == t->columns || !t->row[r].cells[c + 1]);
}

static void pad(FILE *file, size_t n, char c)
{
    while (n--)
        fputc(c, file);
}

void table_fit(struct table *t, size_t most)
{
    if (t)
        t->most = most;
}

/* The rule below the first row is as wide as the columns, and as that row. */
static size_t rule(const struct table *t, const size_t widest[MAX_COLUMNS], size_t total)
{
    size_t at = 0, c = 0;
    while (c < t->columns && !is_rest(t, 0, c))
        at += widest[c++] + 2;
    const size_t head = c < t->columns ? at + format_width(t->row[0].cells[c]) : 0;
    return head > total ? head : total;
}

/* Measure the columns; returns the width of a line. */
static size_t measure(const struct table *t, size_t widest[MAX_COLUMNS])
{
    size_t total = 0;
    for (size_t c = 0; c < t->columns; c++) {
        for (size_t r = 0; r < t->rows; r++) {
            const char *text = t->row[r].cells[c];
            size_t w = text && !is_rest(t, r, c) ? format_width(text) : 0;
            widest[c] = w > widest[c] ? w : widest[c];
        }
        total += widest[c] + (c ? 2 : 0);
    }
    return total;
}

/* Print a row as lines: its first cell, and below it each other cell after its heading. */
static int print_stacked(struct table *t, FILE *file)
{
    size_t head = 0, most = 0;
    for (size_t c = 1; c < t->columns; c++) {
        const char *text = t->row[0].cells[c];
        head = text && format_width(text) > head ? format_width(text) : head;
        for (size_t r = 1; r < t->rows; r++) {
            const char *cell = t->row[r].cells[c];
            const size_t w = cell && !is_rest(t, r, c) ? format_width(cell) : 0;
            most = w > most ? w : most;
        }
    }
    for (size_t r = t->printed > 0 ? t->printed : 1; r < t->rows; r++) {
        fprintf(file, "%s%s\n", r > 1 ? "\n" : "", t->row[r].cells[0] ? t->row[r].cells[0] : "");
        for (size_t c = 1; c < t->columns && t->row[r].cells[c]; c++) {
            const char *name = t->row[0].cells[c] ? t->row[0].cells[c] : "";
            const char *text = t->row[r].cells[c];
            fputs("  ", file);
            if (!is_rest(t, r, c)) {
                const size_t space = head - format_width(name) + 2 + most - format_width(text);
                fputs(name, file);
                pad(file, space, ' ');
            }
            fprintf(file, "%s\n", text);
        }
    }
    t->printed = t->rows;
    return ferror(file) ? -1 : 0;
}

int table_print(struct table *t, FILE *file)
{
    enum { FIRST_LEAST = 12 };
    size_t widest[MAX_COLUMNS] = {0}, total;
    if (t->failed)
        return -1;
    total = measure(t, widest);
    if (t->most > 0 && total > t->most) {
        const size_t others = total - widest[0],
                     least = widest[0] < FIRST_LEAST ? widest[0] : FIRST_LEAST;
        if (t->rows == 0 || others + least > t->most)
            return print_stacked(t, file);
        for (size_t r = t->printed; r < t->rows; r++)
            if (t->row[r].cells[0])
                format_shorten(t->row[r].cells[0], t->most - others);
        widest[0] = t->most - others;
        total = t->most;
    }
    for (size_t r = t->printed; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++) {
            const char *text = t->row[r].cells[c] ? t->row[r].cells[c] : "";
            if (is_rest(t, r, c)) {
                fprintf(file, "%s%s", c ? "  " : "", text);
                break;
            }
            size_t space = widest[c] - format_width(text);
            if (c)
                pad(file, 2 + space, ' ');
            fputs(text, file);
            if (!c && t->columns > 1)
                pad(file, space, ' ');
        }
        fputc('\n', file);
        if (r == 0) {
            pad(file, rule(t, widest, total), '-');
            fputc('\n', file);
        }
    }
    t->printed = t->rows;
    return ferror(file) ? -1 : 0;
}
