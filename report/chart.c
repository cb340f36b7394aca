#include "report/chart.h"
#include "report/escape.h"
#include "report/report.h"
#include <math.h>
#include <string.h>

enum { TOP = 64, PLOT_H = 280, HEIGHT = 420, LEFT = 64, NAME = 18 };
enum { CHARACTER = 7, BOLD = 8 }; /* estimated width of a character at font size 12, in pixels */
static const double apart = 15;   /* between names */

static const char *const colours[CHART_LINES_MAX] = {"#7a7a7a", "#2f86c9", "#d9641e", "#1f9c77",
                                                     "#c2609a", "#b8860b", "#7d6fd0", "#c0453b"};

static const char style[] =
    "text{font:12px sans-serif;fill:#757575}.h{font-weight:bold}"
    ".g{stroke:#888;stroke-opacity:.25;fill:none}"
    ".m{stroke:#888;stroke-dasharray:2 3;fill:none}"
    ".l{fill:none;stroke-width:2}.c{fill:none;stroke-opacity:.6;stroke-dasharray:1 3}";

typedef struct plot {
    FILE *out;
    const chart_panel *panel;
    int left, width;
} plot;

/* ---- axes ------------------------------------------------------------------------------------ */

static double share(const chart_axis *a, double v)
{
    return a->log ? log(v / a->low) / log(a->high / a->low) : (v - a->low) / (a->high - a->low);
}

static double place_x(const plot *p, double v)
{
    return p->left + p->width * share(&p->panel->x, v);
}

static double place_y(const plot *p, double v)
{
    return TOP + PLOT_H * (1 - share(&p->panel->y, v));
}

double chart_tick_every(double length, double count)
{
    const double power = pow(10, floor(log10(length / count)));
    const double times = length / count / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void scaled_text(char text[32], double v, const char *const units[4])
{
    size_t u = 0;
    while (u < 3 && v >= 999) {
        v /= 1e3;
        u++;
    }
    snprintf(text, 32, "%.3g%s", v, units[u]);
}

void chart_text_seconds(char text[32], double v)
{
    static const char *const units[] = {" us", " ms", " s", " ks"};
    scaled_text(text, 1e6 * v, units);
}

void chart_text_rate(char text[32], double v)
{
    static const char *const units[] = {"k", "M", "G", "T"};
    scaled_text(text, v / 1e3, units);
}

void chart_text_number(char text[32], double v)
{
    snprintf(text, 32, "%.4g", v);
}

static void draw_x(const plot *p, double v)
{
    char text[32];
    const double x = place_x(p, v);
    p->panel->x.text(text, v);
    fprintf(p->out,
            "<path d=\"M%.1f %d V%d\" class=\"g\"/><text x=\"%.1f\" y=\"%d\" "
            "text-anchor=\"middle\">%s</text>\n",
            x, TOP, TOP + PLOT_H, x, TOP + PLOT_H + 16, text);
}

static void draw_y(const plot *p, double v)
{
    char text[32];
    const double y = place_y(p, v);
    p->panel->y.text(text, v);
    fprintf(p->out,
            "<path d=\"M%d %.1f H%d\" class=\"g\"/><text x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%s</text>\n",
            p->left, y, p->left + p->width, p->left - 6, y + 4, text);
}

/* A logarithmic axis has ticks at powers of ten; if it is short, also at 2 and 5 times these. */
static void draw_ticks(const plot *p, const chart_axis *a, void (*draw)(const plot *p, double v))
{
    const bool few = a->log && a->high / a->low < 300;
    const double every = a->log ? 0 : chart_tick_every(a->high - a->low, 6);
    for (double i = ceil(a->low / every - 1e-9); !a->log && i * every <= a->high * 1.000001; i++)
        draw(p, i * every + 0.0); /* not -0 */
    for (double v = a->log ? pow(10, floor(log10(a->low))) : INFINITY; v <= a->high; v *= 10)
        for (int times = 1; times <= 5; times += times == 1 ? 1 : 3)
            if ((few || times == 1) && times * v >= a->low * 0.999 && times * v <= a->high * 1.001)
                draw(p, times * v);
}

static void draw_text(const plot *p, double x, double y, const char *attributes, const char *text)
{
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    escape_xml(p->out, text);
    fputs("</text>\n", p->out);
}

static void draw_axes(const plot *p)
{
    const chart_panel *q = p->panel;
    draw_text(p, p->left, TOP - 20, "class=\"h\"", q->title);
    draw_ticks(p, &q->x, draw_x);
    draw_ticks(p, &q->y, draw_y);
    draw_text(p, p->left + p->width / 2.0, TOP + PLOT_H + 36, "text-anchor=\"middle\"", q->x.title);
    if (q->mark >= q->x.low && q->mark <= q->x.high)
        fprintf(p->out, "<path d=\"M%.1f %d V%d\" class=\"m\"/>\n", place_x(p, q->mark), TOP,
                TOP + PLOT_H);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* True if an earlier line has its name. */
static bool named(const chart_panel *q, size_t line)
{
    for (size_t i = 0; i < line; i++)
        if (q->line[i].colour == q->line[line].colour)
            return true;
    return false;
}

/* Place the names at the height of the lines' ends, moved apart. at (lines) */
static void place_names(const plot *p, double *at)
{
    const chart_panel *q = p->panel;
    size_t order[CHART_LINES_MAX], count = 0;
    for (size_t k = 0; k < q->lines; k++) {
        at[k] = place_y(p, q->line[k].y[q->line[k].count - 1]);
        if (named(q, k))
            continue;
        size_t i = count++;
        for (; i > 0 && at[order[i - 1]] > at[k]; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
    for (size_t i = 1; i < count; i++)
        at[order[i]] = fmax(at[order[i]], at[order[i - 1]] + apart);
    double floor = TOP + PLOT_H + 4;
    for (size_t i = count; i-- > 0; floor = at[order[i]] - apart)
        at[order[i]] = fmin(at[order[i]], floor);
}

static void draw_name(const plot *p, const chart_line *l, double at)
{
    const char *colour = colours[l->colour % CHART_LINES_MAX];
    const int right = p->left + p->width;
    char look[64];
    fprintf(p->out, "<path d=\"M%.1f %.1f L%d %.1f\" class=\"c\" stroke=\"%s\"/>",
            place_x(p, l->x[l->count - 1]), place_y(p, l->y[l->count - 1]), right + NAME - 4, at,
            colour);
    snprintf(look, sizeof look, "style=\"fill:%s\"", colour);
    draw_text(p, right + NAME, at + 4, look, l->name);
}

static void draw_lines(const plot *p)
{
    const chart_panel *q = p->panel;
    double at[CHART_LINES_MAX];
    place_names(p, at);
    for (size_t k = 0; k < q->lines; k++) {
        const chart_line *l = &q->line[k];
        fputs("<path d=\"M", p->out);
        for (size_t i = 0; i < l->count; i++)
            fprintf(p->out, "%.1f %.1f ", place_x(p, l->x[i]), place_y(p, l->y[i]));
        fprintf(p->out, "\" class=\"l\" stroke=\"%s\"%s/>\n", colours[l->colour % CHART_LINES_MAX],
                l->dashed ? " stroke-dasharray=\"5 4\"" : "");
        if (l->count == 1)
            fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n",
                    place_x(p, l->x[0]), place_y(p, l->y[0]), colours[l->colour % CHART_LINES_MAX]);
        if (!named(q, k))
            draw_name(p, l, at[k]);
    }
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* The width of a panel with the names of its lines. */
static int panel_width(const chart_panel *q, int width)
{
    size_t longest = 0;
    for (size_t k = 0; k < q->lines; k++)
        longest = strlen(q->line[k].name) > longest ? strlen(q->line[k].name) : longest;
    return LEFT + width + NAME + CHARACTER * (int)longest;
}

void chart_write(FILE *out, const char *title, int width, const chart_panel *panel, size_t count)
{
    const int head = LEFT + BOLD * (int)strlen(title);
    int all = 0;
    for (size_t i = 0; i < count; i++)
        all += panel_width(&panel[i], width);
    all = head > all ? head : all;
    fprintf(out,
            REPORT_PICTURE_BEGINS
            " xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" style=\"max-width:100%%;height:auto\" role=\"img\">\n<title>",
            all, HEIGHT, all, HEIGHT);
    escape_xml(out, title);
    fprintf(out, "</title>\n<style>%s</style>\n", style);
    plot p = {.out = out, .left = LEFT, .width = width};
    draw_text(&p, LEFT, 20, "class=\"h\"", title);
    for (size_t i = 0; i < count; i++) {
        p.panel = &panel[i];
        draw_axes(&p);
        draw_lines(&p);
        p.left += panel_width(&panel[i], width);
    }
    fputs("</svg>\n", out);
}
