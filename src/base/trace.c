/* Two rings of spans, so that the many spans of layers do not displace the others. A span takes the
 * next ticket and writes into slot ticket % capacity. Two writers can meet in a slot only if one
 * falls a whole ring behind. Then the younger span wins, or, if the slot is being written at that
 * moment, the later writer drops its span. Nobody ever waits. */
#include "base/floats.h"
#include "base/mem.h"
#include "base/arg.h"
#include "telegrad/tools.h"
#include "telegrad/trace.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct span {
    const char *name; /* NULL: empty */
    int64_t begin_ns, end_ns;
    uint64_t ticket, step;
    uint32_t bucket;
    int rank;
    tg_trace_row row;
    atomic_bool busy; /* a writer owns it */
} span;

typedef struct kept_name {
    struct kept_name *next;
    char text[];
} kept_name;

/* A span, and its lane in the file. */
typedef struct placed {
    const span *s;
    size_t lane;
} placed;

typedef struct ring {
    span *spans;                /* (capacity of the trace) */
    atomic_uint_least64_t next; /* ticket */
} ring;

enum { WORK, LAYERS, RINGS };

struct tg_trace {
    ring rings[RINGS];
    size_t capacity;
    kept_name *_Atomic names; /* a list that only grows */
};

static const char *const row_names[] = {
    [TG_ROW_COMPUTE] = "compute", [TG_ROW_ENCODE] = "encode", [TG_ROW_EXCHANGE] = "exchange",
    [TG_ROW_APPLY] = "apply",     [TG_ROW_WAIT] = "wait",     [TG_ROW_LAYERS] = "layers",
};

tg_status tg_trace_create(size_t capacity, tg_trace **trace_p)
{
    TG__ARG(trace_p);
    if (capacity == 0)
        return tg_fail(TG_E_ARG, "trace capacity=0: allowed: capacity >= 1");
    tg_trace *trace = NULL;
    TG_TRY(tg_alloc(1, sizeof *trace, &trace));
    for (int i = 0; i < RINGS; i++) {
        ring *r = &trace->rings[i];
        tg_status status = tg_alloc(capacity, sizeof *r->spans, &r->spans);
        if (status != TG_OK) {
            tg_trace_destroy(trace);
            return status;
        }
    }
    trace->capacity = capacity;
    *trace_p = trace;
    return TG_OK;
}

void tg_trace_destroy(tg_trace *trace)
{
    if (!trace)
        return;
    for (kept_name *name = atomic_load(&trace->names); name != NULL;) {
        kept_name *next = name->next;
        free(name);
        name = next;
    }
    for (int i = 0; i < RINGS; i++)
        free(trace->rings[i].spans);
    free(trace);
}

tg_status tg_trace_name(tg_trace *trace, const char *text, const char **name_p)
{
    TG__ARGS(trace, text, name_p);
    const size_t bytes = strlen(text) + 1;
    kept_name *name;
    TG_TRY(tg_alloc(1, sizeof *name + bytes, &name));
    memcpy(name->text, text, bytes);
    name->next = atomic_load(&trace->names);
    while (!atomic_compare_exchange_weak(&trace->names, &name->next, name))
        continue;
    *name_p = name->text;
    return TG_OK;
}

void tg_trace_span(tg_trace *trace, int rank, tg_trace_row row, const char *name, int64_t begin_ns,
                   int64_t end_ns, uint64_t step, uint32_t bucket)
{
    if (!trace || !name)
        return;
    ring *r = &trace->rings[row == TG_ROW_LAYERS ? LAYERS : WORK];
    uint64_t ticket = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    span *s = &r->spans[ticket % trace->capacity];
    if (atomic_exchange_explicit(&s->busy, true, memory_order_acquire))
        return;
    if (!s->name || s->ticket < ticket) {
        s->name = name;
        s->begin_ns = begin_ns;
        s->end_ns = end_ns;
        s->ticket = ticket;
        s->step = step;
        s->bucket = bucket;
        s->rank = rank;
        s->row = (size_t)row < TG_COUNT(row_names) ? row : TG_ROW_COMPUTE;
    }
    atomic_store_explicit(&s->busy, false, memory_order_release);
}

/* Nanoseconds as microseconds with three decimals, in any locale. */
static void print_us(FILE *file, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    fprintf(file, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

/* The additional lanes of a kind have numbers after those of the rows. */
static size_t tid_of(size_t row, size_t lane)
{
    return lane == 0 ? row : TG_COUNT(row_names) + lane - 1;
}

static void print_span(FILE *file, const placed *p)
{
    const span *s = p->s;
    /* The difference of any two times fits the unsigned type. */
    uint64_t dur = s->end_ns > s->begin_ns ? (uint64_t)s->end_ns - (uint64_t)s->begin_ns : 0;
    fprintf(file, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%zu,\"cat\":\"%s\",\"name\":", s->rank,
            tid_of(s->row, p->lane), row_names[s->row]);
    tg__print_json(file, s->name);
    fputs(",\"ts\":", file);
    print_us(file, s->begin_ns);
    fputs(",\"dur\":", file);
    print_us(file, (int64_t)TG__MIN(dur, (uint64_t)INT64_MAX));
    fprintf(file, ",\"args\":{\"step\":%" PRIu64 ",\"bucket\":%" PRIu32 "}}", s->step, s->bucket);
}

/* Print one track. sort: its position among those of its rank */
static void print_track(FILE *file, int rank, size_t row, size_t lane, size_t sort)
{
    const size_t tid = tid_of(row, lane);
    fprintf(file,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%zu,\"name\":\"thread_name\",\"args\":"
            "{\"name\":\"%s",
            rank, tid, row_names[row]);
    if (lane > 0)
        fprintf(file, " %zu", lane + 1);
    fprintf(file,
            "\"}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%zu,\"name\":\"thread_sort_index\","
            "\"args\":{\"sort_index\":%zu}}",
            rank, tid, sort);
}

/* Print the first events of the file; only these decide about a comma. lanes: of exchanges */
static void print_rank(FILE *file, int rank, size_t lanes, bool first)
{
    fprintf(file,
            "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank "
            "%d\"}},\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":"
            "{\"sort_index\":%d}}",
            first ? "" : ",\n", rank, rank, rank, rank);
    for (size_t row = 0, sort = 0; row < TG_COUNT(row_names); row++)
        for (size_t lane = 0; lane < (row == TG_ROW_EXCHANGE ? lanes : 1); lane++)
            print_track(file, rank, row, lane, sort++);
}

/* By rank, row and start; equal spans stay in the order in which they were recorded. */
static int by_place(const void *a, const void *b)
{
    const span *x = ((const placed *)a)->s, *y = ((const placed *)b)->s;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->ticket > y->ticket) - (x->ticket < y->ticket);
}

/* Exchanges run concurrently, but slices of one track may only nest. So each exchange takes the
 * first lane that is free when it begins. p (n): of one rank, sorted; busy_until: scratch (n).
 * Returns the number of lanes, at least 1. */
static size_t place_exchanges(placed *p, size_t n, int64_t *busy_until)
{
    size_t lanes = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i].s->row != TG_ROW_EXCHANGE)
            continue;
        size_t lane = 0;
        while (lane < lanes && busy_until[lane] > p[i].s->begin_ns)
            lane++;
        p[i].lane = lane;
        busy_until[lane] = TG__MAX(p[i].s->begin_ns, p[i].s->end_ns);
        lanes = TG__MAX(lanes, lane + 1);
    }
    return TG__MAX(lanes, 1);
}

static void print_events(FILE *file, placed *p, size_t n, int64_t *scratch)
{
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && p[to].s->rank == p[from].s->rank;)
            to++;
        const size_t lanes = place_exchanges(p + from, to - from, scratch);
        print_rank(file, p[from].s->rank, lanes, from == 0);
    }
    for (size_t i = 0; i < n; i++)
        print_span(file, &p[i]);
}

tg_status tg_trace_print(const tg_trace *trace, FILE *out)
{
    TG__OWN_FLOATS;
    TG__ARGS(trace, out);
    uint64_t recorded = 0;
    TG__FREED placed *p = NULL;
    TG__FREED int64_t *scratch = NULL;
    size_t kept = 0;
    TG_TRY(tg_alloc(RINGS * trace->capacity, sizeof *p, &p));
    for (int k = 0; k < RINGS; k++) {
        const ring *r = &trace->rings[k];
        recorded += atomic_load_explicit(&r->next, memory_order_acquire);
        for (size_t i = 0; i < trace->capacity; i++)
            if (r->spans[i].name)
                p[kept++].s = &r->spans[i];
    }
    qsort(p, kept, sizeof *p, by_place);

    TG_TRY(tg_alloc(kept, sizeof *scratch, &scratch));
    fprintf(out,
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"producer\":\"telegrad %s\","
            "\"dropped\":%" PRIu64 "},\n\"traceEvents\":[\n",
            tg_version(), recorded - kept);
    print_events(out, p, kept, scratch);
    fputs("\n]}\n", out);
    return TG_OK;
}

tg_status tg_trace_write(const tg_trace *trace, const char *path)
{
    TG__OWN_FLOATS;
    TG__ARGS(trace, path);
    tg_newfile *file;
    TG_TRY(tg_newfile_open(path, &file));
    const tg_status status = tg_trace_print(trace, tg_newfile_stream(file));
    if (status == TG_OK)
        return tg_newfile_commit(file);
    tg_newfile_abandon(file);
    return status;
}
