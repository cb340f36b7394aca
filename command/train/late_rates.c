#include "command/train/late_rates.h"
#include "command/output/console.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* How often the rate was multiplied by `factor` before the last step. -1: it is still rising. */
static double reductions(const train_start_info *info, const tg_spec *spec, double factor)
{
    tg_lr_schedule *s;
    uint64_t warmup;
    if (tg_duration_steps(tg_spec_duration(spec, "warmup"), info->steps_per_epoch, "warmup",
                          &warmup) != TG_OK ||
        info->steps <= warmup ||
        tg_lr_schedule_create(info->lr_schedule, 1, info->steps, info->steps_per_epoch, &s) !=
            TG_OK)
        return -1;
    const double rate = tg_lr_schedule_at(s, info->steps - 1);
    tg_lr_schedule_destroy(s);
    return rate > 0 ? round(log(rate) / log(factor)) : INFINITY;
}

static void warn(const train_start_info *info, const tg_spec *spec, const char *title)
{
    const char *colon = title[0] ? ": " : "", *at = NULL;
    const double factor = tg_spec_real(spec, "factor"),
                 done = factor < 1 ? reductions(info, spec, factor) : -1;
    int count = 1;
    if (tg_spec_has(spec, "at"))
        at = tg_spec_word(spec, "at");
    for (const char *p = at; p && (p = strchr(p, '+')) != NULL; p++)
        count++;
    if (done == 0)
        console_warning("%s%slr-schedule %.128s%s: the first reduction comes after the end of this "
                        "run, which has %" PRIu64 " steps: use %s",
                        title, colon, tg_spec_text(spec),
                        at || tg_spec_has(spec, "every") ? "" : ",every=30ep", info->steps,
                        at ? "earlier steps in at=" : "a smaller every=");
    else if (at && done > 0 && done < count)
        console_warning("%s%slr-schedule %.128s: the last %d of its %d reductions come after the "
                        "end of this run, which has %" PRIu64 " steps: use earlier steps in at=",
                        title, colon, tg_spec_text(spec), count - (int)done, count, info->steps);
}

void late_rates_warn(const train_start_info *info, const char *title)
{
    tg_spec *spec;
    if (tg_registry_parse(TG_KIND_LR_SCHEDULE, info->lr_schedule, &spec) != TG_OK)
        return;
    if (strcmp(tg_spec_name(spec), "step") == 0)
        warn(info, spec, title);
    tg_spec_free(spec);
}
