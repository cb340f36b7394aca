/* Writes an SVG of panels, one below the other. Lengths are in SVG units: pixels, unless scaled. */
#include "report/chart.h"
#include "report/escape.h"
#include "report/report.h"
#include "report/timeline.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WIDTH 1000
#define LEFT 124
#define RIGHT 14
#define ROW 13.0
#define LANE 7.0
#define GAP 2.0
#define RANK_GAP 7.0
#define HEAD 50.0
#define AXIS 36.0

/* Two themes; the reader's system chooses between light and dark. */
static const char style[] =
    "text{font:11px system-ui,-apple-system,'Segoe "
    "UI',Roboto,Helvetica,Arial,sans-serif;fill:#3d444d}"
    ".h{font-size:14px;font-weight:600;fill:#1b1f24}.s{fill:#57606a}.e{text-anchor:end}"
    ".m{text-anchor:middle}.paper{fill:#fff}.bed{fill:#f6f8fa}.grid{stroke:#d8dee4;stroke-width:1}"
    ".tick{stroke:#8c959f}.step{stroke:#57606a;stroke-dasharray:2 3}"
    ".forward{fill:#6f9fd0}.backward{fill:#34669f}.wait{fill:#d1862f}.apply{fill:#4b9a6c}"
    ".encode{fill:#8a63b8}.exchange{fill:#c25b7c}.dense{fill:#8d3f58}"
    "@media (prefers-color-scheme:dark){text{fill:#c3ccd5}.h{fill:#e2e7ec}.s{fill:#9ea8b3}"
    ".paper{fill:#0f1317}.bed{fill:#1a2027}.grid{stroke:#2a323a}.tick{stroke:#737d88}"
    ".step{stroke:#9ea8b3}.forward{fill:#86b6e8}.backward{fill:#4b83c1}.wait{fill:#e39b4b}"
    ".apply{fill:#5fb585}.encode{fill:#a985d6}.exchange{fill:#d97a98}.dense{fill:#a8506c}}";

typedef struct sheet {
    FILE *out;
    double length;        /* microseconds from left to right */
    bool used[SPAN_ROWS]; /* rows with at least one bar, in any panel */
} sheet;

static double x_of(const sheet *s, double us)
{
    return LEFT + us / s->length * (WIDTH - LEFT - RIGHT);
}

static double row_height(const timeline_panel *p, int rank, span_row row)
{
    return row == SPAN_EXCHANGE ? fmax(ROW, p->lanes[rank] * LANE) : ROW;
}

static double rank_height(const sheet *s, const timeline_panel *p, int rank)
{
    double sum = RANK_GAP;
    for (int row = 0; row < SPAN_ROWS; row++)
        sum += s->used[row] ? row_height(p, rank, (span_row)row) + GAP : 0;
    return sum;
}

static double panel_height(const sheet *s, const timeline_panel *p)
{
    double sum = HEAD;
    for (int r = 0; r < p->ranks; r++)
        sum += rank_height(s, p, r);
    return sum + 8;
}

/* ---- one panel ------------------------------------------------------------------------------- */

static const char *class_of(const trace_span *s)
{
    if (s->row == SPAN_COMPUTE)
        return strcmp(s->name, "forward") == 0 ? "forward" : "backward";
    if (s->row == SPAN_EXCHANGE)
        return strstr(s->name, "dense") ? "dense" : "exchange";
    return span_row_names[s->row];
}

static void write_bar(const sheet *s, const timeline_panel *p, const timeline_bar *bar, double y)
{
    const trace_span *span = bar->span;
    const double x = x_of(s, bar->begin), width = x_of(s, bar->end) - x;
    const double height = span->row == SPAN_EXCHANGE && p->lanes[span->rank] > 1 ? LANE - 1 : ROW;
    if (span->row == SPAN_EXCHANGE && p->lanes[span->rank] > 1)
        y += bar->lane * LANE;
    fprintf(s->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
            class_of(span), x, y, fmax(width, 0.3), height);
    fputs("<title>", s->out);
    escape_xml(s->out, span->name);
    fprintf(s->out, ", step %" PRIu64, span->step);
    if (span->row == SPAN_EXCHANGE || span->row == SPAN_ENCODE)
        fprintf(s->out, ", bucket %d", span->bucket);
    fprintf(s->out, ": %.3f ms</title></rect>\n", (span->end - span->begin) / 1000);
}

static void write_row(const sheet *s, const timeline_panel *p, int rank, span_row row, double y)
{
    const double height = row_height(p, rank, row);
    fprintf(s->out,
            "<rect class=\"bed\" x=\"%d\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>"
            "<text class=\"s e\" x=\"%d\" y=\"%.1f\">%s</text>\n",
            LEFT, y, x_of(s, p->length) - LEFT, height, LEFT - 7, y + 10, span_row_names[row]);
    for (size_t i = 0; i < p->count; i++)
        if (p->bars[i].span->rank == rank && p->bars[i].span->row == row)
            write_bar(s, p, &p->bars[i], y);
    /* While a pass waits for a layer's parameters, it does not compute. */
    for (size_t i = 0; row == SPAN_COMPUTE && i < p->count; i++) {
        const timeline_bar *bar = &p->bars[i];
        if (bar->span->rank == rank && bar->span->row == SPAN_WAIT)
            fprintf(s->out,
                    "<rect class=\"bed\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>\n",
                    x_of(s, bar->begin), y, x_of(s, bar->end) - x_of(s, bar->begin), ROW);
    }
}

/* Mark where rank 0 begins each step. */
static void write_steps(const sheet *s, const timeline_panel *p, double top, double bottom)
{
    uint64_t next = p->first;
    double last_x = -100;
    for (size_t i = 0; i < p->count; i++) {
        const trace_span *span = p->bars[i].span;
        if (span->rank != 0 || span->row != SPAN_COMPUTE || span->step < next)
            continue;
        const double x = x_of(s, p->bars[i].begin);
        next = span->step + 1;
        fprintf(s->out, "<line class=\"step\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                x, top, bottom);
        if (x - last_x > 44) {
            fprintf(s->out, "<text class=\"s\" x=\"%.2f\" y=\"%.1f\">step %" PRIu64 "</text>\n",
                    x + 2, top - 1, span->step);
            last_x = x;
        }
    }
}

static void write_panel(const sheet *s, const timeline_panel *p, double top)
{
    fprintf(s->out, "<text class=\"h\" x=\"12\" y=\"%.1f\">", top + 16);
    escape_xml(s->out, p->title);
    fprintf(s->out,
            "</text>\n<text class=\"s\" x=\"12\" y=\"%.1f\">%.1f ms a step; of them a rank waits "
            "%.1f ms",
            top + 32, p->step / 1000, p->wait / 1000);
    if (p->ranks < p->ranks_all)
        fprintf(s->out, "; the first %d of %d ranks", p->ranks, p->ranks_all);
    fputs("</text>\n", s->out);
    double y = top + HEAD;
    for (int rank = 0; rank < p->ranks; rank++) {
        fprintf(s->out, "<text x=\"12\" y=\"%.1f\">rank %d</text>\n", y + 10,
                p->trace.first_rank + rank);
        for (int row = 0; row < SPAN_ROWS; row++) {
            if (!s->used[row])
                continue;
            write_row(s, p, rank, (span_row)row, y);
            y += row_height(p, rank, (span_row)row) + GAP;
        }
        y += RANK_GAP;
    }
    write_steps(s, p, top + HEAD - 2, y - RANK_GAP);
}

/* ---- the sheet ------------------------------------------------------------------------------- */

static void write_axis(const sheet *s, double top, double bottom)
{
    const double every = chart_tick_every(s->length, 10);
    for (unsigned i = 0; i * every <= s->length * 1.0000001; i++) {
        const double x = x_of(s, i * every);
        fprintf(s->out,
                "<line class=\"grid\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"s m\" x=\"%.2f\" y=\"%.1f\">%g</text>\n",
                x, x, top, bottom + 5, x, bottom + 18, i * every / 1000);
    }
    fprintf(s->out, "<text class=\"s e\" x=\"%d\" y=\"%.1f\">ms</text>\n", LEFT - 7, bottom + 18);
}

static void write_legend(const sheet *s)
{
    static const struct {
        const char *class, *text;
        span_row row;
    } parts[] = {{"forward", "forward", SPAN_COMPUTE},
                 {"backward", "backward", SPAN_COMPUTE},
                 {"wait", "wait", SPAN_WAIT},
                 {"apply", "apply", SPAN_APPLY},
                 {"encode", "encode", SPAN_ENCODE},
                 {"exchange", "exchange", SPAN_EXCHANGE},
                 {"dense", "exchange, dense", SPAN_EXCHANGE}};
    double x = LEFT;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!s->used[parts[i].row])
            continue;
        fprintf(s->out,
                "<rect class=\"%s\" x=\"%.0f\" y=\"11\" width=\"12\" height=\"12\"/>"
                "<text x=\"%.0f\" y=\"21\">%s</text>\n",
                parts[i].class, x, x + 17, parts[i].text);
        x += 34 + 6.2 * (double)strlen(parts[i].text);
    }
}

static void write_svg(FILE *out, const timeline_panel *panels, size_t count)
{
    sheet s = {.out = out};
    double height = 34, y = 34;
    for (size_t i = 0; i < count; i++) {
        s.length = fmax(s.length, panels[i].length);
        for (size_t k = 0; k < panels[i].count; k++)
            s.used[panels[i].bars[k].span->row] = true;
    }
    for (size_t i = 0; i < count; i++)
        height += panel_height(&s, &panels[i]);
    fprintf(out,
            REPORT_PICTURE_BEGINS
            " xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
            "height=\"%.0f\" role=\"img\">\n<title>",
            WIDTH, height + AXIS, WIDTH, height + AXIS);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "; " : "", out);
        escape_xml(out, panels[i].title);
    }
    fprintf(out,
            "</title>\n<style>%s</style>\n<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n",
            style, WIDTH, height + AXIS);
    write_legend(&s);
    write_axis(&s, 34, height);
    for (size_t i = 0; i < count; i++) {
        write_panel(&s, &panels[i], y);
        y += panel_height(&s, &panels[i]);
    }
    fputs("</svg>\n", out);
}

static void write_html(FILE *out, const timeline_panel *panels, size_t count)
{
    fputs(REPORT_PAGE_BEGINS
          "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    escape_xml(out, panels[0].title);
    fputs("</title>\n<style>body{margin:0}body>svg{width:100%;height:auto}"
          "@media (prefers-color-scheme:dark){body{background:#0f1317}}</style>\n</head>\n<body>\n",
          out);
    write_svg(out, panels, count);
    fputs("</body>\n</html>\n", out);
}

tg_status report_timeline(const report_timeline_job *job, FILE *out)
{
    timeline_panel panels[REPORT_TRACES_MAX] = {0};
    tg_status status = TG_OK;
    for (size_t i = 0; i < job->count && status == TG_OK; i++)
        status = timeline_panel_make(job, i, &panels[i]);
    if (status == TG_OK)
        (job->html ? write_html : write_svg)(out, panels, job->count);
    for (size_t i = 0; i < job->count; i++)
        timeline_panel_free(&panels[i]);
    return status;
}
