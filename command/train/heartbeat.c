#include "command/train/heartbeat.h"
#include "command/output/format.h"
#include <inttypes.h>
#include <stdio.h>

#define BETWEEN_NS INT64_C(60000000000)
#define EPOCH_NS INT64_C(30000000000)

bool heartbeat_due(struct heartbeat *h, int64_t now_ns, bool epoch_ends)
{
    if (now_ns - h->told_ns < (epoch_ends ? EPOCH_NS : BETWEEN_NS))
        return false;
    h->told_ns = now_ns;
    return true;
}

void heartbeat_line(char *dst, size_t cap, uint64_t first, uint64_t step, uint64_t total,
                    double seconds, double loss, double bytes)
{
    const double done = total > 0 ? (double)step / (double)total : 1;
    const double rate = seconds > 0 ? (double)(step - first) / seconds : 0;
    const int used = snprintf(
        dst, cap, "step %" PRIu64 " of %" PRIu64 " (%.0f %%): %.1f steps/s, loss %s, sent %s", step,
        total, 100 * done, rate, format_loss(loss).text, format_bytes(bytes).text);
    if (rate > 0 && used > 0 && (size_t)used < cap)
        snprintf(dst + used, cap - (size_t)used, ", %s left",
                 format_seconds((double)(total - step) / rate).text);
}
