#include "command/serve/metrics.h"
#include "telegrad/telegrad.h"
#include "telegrad/tools.h"
#include <math.h>

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP telegrad_%s %s\n# TYPE telegrad_%s %s\n", name, help, name, type);
}

static void write_value(FILE *f, double v)
{
    if (isfinite(v))
        fprintf(f, " %.17g\n", v);
    else
        fputs(" NaN\n", f);
}

/* Bytes that f32 takes, divided by those that it took; NAN: there were none. */
static double ratio(uint64_t elements, uint64_t bytes)
{
    return bytes > 0 ? 4 * (double)elements / (double)bytes : (double)NAN;
}

static void write_staleness(FILE *f, const tg_server_stats *s)
{
    uint64_t up_to = 0;
    head(f, "staleness", "histogram", "Steps between a worker's parameters and its gradient.");
    for (size_t i = 0; i < TG_STALENESS; i++) {
        up_to += s->staleness[i];
        if (i + 1 < TG_STALENESS)
            fprintf(f, "telegrad_staleness_bucket{le=\"%llu\"} %llu\n", (1ULL << i) - 1,
                    (unsigned long long)up_to);
    }
    fprintf(f,
            "telegrad_staleness_bucket{le=\"+Inf\"} %llu\ntelegrad_staleness_sum %llu\n"
            "telegrad_staleness_count %llu\n",
            (unsigned long long)up_to, (unsigned long long)s->staleness_sum,
            (unsigned long long)up_to);
}

static void write_events(FILE *f, const struct server_events *e)
{
    head(f, "worker_events_total", "counter",
         "What has happened to workers, as in the records of --out.");
    for (int i = 0; i < SERVER_EVENTS; i++)
        fprintf(f, "telegrad_worker_events_total{event=\"%s\"} %llu\n", server_event_names[i],
                (unsigned long long)server_events_count(e, i));
}

void metrics_write(const struct metrics *m, FILE *f)
{
    const tg_server_stats *s = m->stats;
    const struct {
        const char *name, *type, *help;
        double value;
    } all[] = {
        {"start_time_seconds", "gauge", "When the server started, in Unix time.", m->began_s},
        {"workers", "gauge", "Connected workers.", s->ranks},
        {"seats", "gauge", "The most workers at a time.", m->seats},
        {"parameters", "gauge", "Parameters that this server keeps.", (double)s->parameters},
        {"step", "gauge", "The latest step that was answered, over all workers.", (double)s->step},
        {"last_answer_timestamp_seconds", "gauge",
         "When the last answer was sent, in Unix time; 0: none yet.", m->moved_s},
        {"answers_total", "counter", "Answers (parameters) sent.", (double)s->sums},
        {"elements_total", "counter",
         "Elements received, of gradients and of parameters that workers bring.",
         (double)s->elements},
        {"received_bytes_total", "counter", "Bytes received from workers.", (double)s->bytes_in},
        {"sent_bytes_total", "counter", "Bytes sent to workers.", (double)s->bytes_out},
        {"gradients_total", "counter", "Messages with gradients received.", (double)s->gradients},
        {"gradient_elements_total", "counter", "Elements of gradients received.",
         (double)s->gradient_elements},
        {"gradient_bytes_total", "counter", "Bytes of the messages with gradients.",
         (double)s->gradient_bytes},
        {"gradient_compression_ratio", "gauge",
         "Bytes that the received gradients would have taken as f32, divided by their bytes.",
         ratio(s->gradient_elements, s->gradient_bytes)},
        {"answer_elements_total", "counter", "Elements of the answers to gradients.",
         (double)s->answer_elements},
        {"answer_bytes_total", "counter", "Bytes of the answers to gradients.",
         (double)s->answer_bytes},
        {"answer_compression_ratio", "gauge",
         "Bytes that the answers to gradients would have taken as f32, divided by their bytes.",
         ratio(s->answer_elements, s->answer_bytes)},
        {"repeated_total", "counter", "Messages that workers sent again.", (double)s->repeated},
        {"unfit_total", "counter", "Gradients not applied: they or the update are not finite.",
         (double)s->unfit},
        {"late_total", "counter", "Gradients not applied: they came after the deadline.",
         (double)s->late},
        {"records_lost_total", "counter", "Records of --out that could not be written.",
         (double)m->records_lost},
        {"waited_seconds_total", "counter", "Time spent idle.", (double)s->waited_ns / 1e9},
        {"combined_seconds_total", "counter", "Time spent on decoding and updating.",
         (double)s->combined_ns / 1e9},
        {"journal_bytes", "gauge", "Bytes of the journal's log.", (double)s->journal_bytes},
        {"journal_syncs_total", "counter", "How often the journal was synced to disk.",
         (double)s->journal_syncs},
        {"journal_seconds_total", "counter", "Time spent on syncing the journal.",
         (double)s->journal_ns / 1e9},
    };
    head(f, "build_info", "gauge", "The version; always 1.");
    fprintf(f, "telegrad_build_info{version=\"%s\"} 1\n", tg_version());
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        head(f, all[i].name, all[i].type, all[i].help);
        fprintf(f, "telegrad_%s", all[i].name);
        write_value(f, all[i].value);
    }
    write_staleness(f, s);
    write_events(f, m->events);
}
