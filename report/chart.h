/* Line charts as SVG: panels side by side, each line with its name to the right of the plot. The
 * colours are of medium lightness, readable on white and on black. */
#ifndef TG_REPORT_CHART_H
#define TG_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CHART_LINES_MAX = 8 };

typedef struct chart_line {
    const char *name; /* UTF-8 */
    double *x, *y;    /* (count) ascending in x, within the axes */
    size_t count;     /* at least 1 */
    int colour;       /* lines with the same number share a colour and a name */
    bool dashed;
} chart_line;

typedef struct chart_axis {
    const char *title;
    double low, high; /* low < high; with log: 0 < low */
    bool log;
    void (*text)(char text[32], double v); /* what stands at a tick */
} chart_axis;

typedef struct chart_panel {
    const char *title;
    chart_axis x, y;
    chart_line line[CHART_LINES_MAX];
    size_t lines;
    double mark; /* x of a dotted line; outside of the axis: none */
} chart_panel;

/* Write an SVG.
 * title  of the whole picture, UTF-8
 * width  of each plot, in pixels
 * panel  (count) */
void chart_write(FILE *out, const char *title, int width, const chart_panel *panel, size_t count);

/* The distance of ticks on a linear axis: 1, 2 or 5 times a power of ten, such that about `count`
 * ticks fit in `length`. */
double chart_tick_every(double length, double count);

/* Texts of ticks: 0.02 becomes "20 ms", 3e6 "3M", 0.5 "0.5". */
void chart_text_seconds(char text[32], double v);
void chart_text_rate(char text[32], double v);
void chart_text_number(char text[32], double v);

#endif
