#include "command/train/progress.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REDRAW_NS INT64_C(100000000)
#define BAR_MAX 30

void progress_begin(struct progress *p, const char *title, uint64_t first, uint64_t total)
{
    *p = (struct progress){.title = title, .first = first, .total = total};
    p->begin_ns = p->heartbeat.told_ns = tg_now_ns(tg_clock_monotonic());
}

static void draw(const struct progress *p, const train_step_info *info, double seconds)
{
    char text[160], bar[BAR_MAX + 1], line[256];
    double done = p->total ? (double)info->step / (double)p->total : 0;
    double rate = seconds > 0 ? (double)(info->step - p->first) / seconds : 0;
    double left = rate > 0 ? (double)(p->total - info->step) / rate : 0;
    int columns = console_columns() - 1;
    int used =
        snprintf(text, sizeof text,
                 " %3.0f%% %" PRIu64 "/%" PRIu64 "  %5.1f steps/s  loss %s  sent %-7s %7s left",
                 100 * done, info->step, p->total, rate, format_loss(info->loss).text,
                 format_bytes((double)p->bytes).text, format_seconds(left).text);
    if (p->simulated && used < (int)sizeof text)
        used += snprintf(text + used, sizeof text - (size_t)used, "  simulated %s",
                         format_seconds(info->seconds).text);
    int room = columns - used - (int)strlen(p->title) - 3;
    int width = room > BAR_MAX ? BAR_MAX : room < 0 ? 0 : room;
    int full = (int)(done * width);
    memset(bar, '.', sizeof bar);
    memset(bar, '#', (size_t)(full > width ? width : full));
    bar[width] = '\0';
    int len = width >= 5 ? snprintf(line, sizeof line, "%s%s[%s]%s", p->title,
                                    p->title[0] ? " " : "", bar, text)
                         : snprintf(line, sizeof line, "%s%s", p->title, text);
    if (len > columns && columns < (int)sizeof line)
        line[columns] = '\0';
    console_status(line);
}

static void tell(const struct progress *p, const train_step_info *info, double seconds)
{
    char line[160];
    heartbeat_line(line, sizeof line, p->first, info->step, p->total, seconds, info->loss,
                   (double)p->bytes);
    console_note("%s%s%s", p->title, p->title[0] ? ": " : "", line);
}

void progress_step(struct progress *p, const train_step_info *info)
{
    p->bytes += info->tg.bytes_sent;
    int64_t now = tg_now_ns(tg_clock_monotonic());
    bool last = info->step >= p->total || info->tg.stop;
    if (!console_terminal() && !last && heartbeat_due(&p->heartbeat, now, false))
        tell(p, info, (double)(now - p->begin_ns) / 1e9);
    if (!console_terminal() || (now - p->drawn_ns < REDRAW_NS && !last))
        return;
    p->drawn_ns = now;
    draw(p, info, (double)(now - p->begin_ns) / 1e9);
}

void progress_end(void)
{
    console_status("");
}
