#include "command/job/step_times.h"
#include "telegrad/tools.h"
#include "command/job/clock_options.h"
#include "trainer/model/model.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKS = 3 };

static const char *const work_names[WORKS] = {"forward_ns", "weights_ns", "inputs_ns"};

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *integers(const int64_t *v, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

json_t *step_times_record(const train_times *times)
{
    if (!times)
        return json_null();
    json_t *record = json_object(), *buckets = json_array();
    for (size_t w = 0; w < WORKS; w++)
        json_object_set_new(record, work_names[w],
                            integers(times->layer_ns + w * times->layers, times->layers));
    for (size_t b = 0; b < times->buckets; b++) {
        const tg_bucket_cost *cost = &times->bucket[b];
        json_array_append_new(buckets, json_pack("{s:o, s:o, s:o, s:o, s:I}",               /**/
                                                 "encode_ns", integers(cost->encode_ns, 2), /**/
                                                 "start_ns", integers(cost->start_ns, 2),   /**/
                                                 "finish_ns", integers(cost->finish_ns, 2),
                                                 "decode_byte_ps",                              /**/
                                                 integers(cost->decode_byte_ps, 2), "apply_ns", /**/
                                                 (json_int_t)cost->apply_ns));
    }
    json_object_set_new(record, "buckets", buckets);
    return record;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Work of a step takes less than a quarter of an hour, a byte less than a second, so sums of such
 * times do not overflow. */
static bool whole(const json_t *value, int64_t *v_p)
{
    const json_int_t v = json_integer_value(value);
    *v_p = v;
    return json_is_integer(value) && v >= 0 && v <= INT64_C(1000000000000);
}

static bool read_list(const json_t *list, size_t n, int64_t *v)
{
    bool good = json_is_array(list) && json_array_size(list) == n;
    for (size_t i = 0; i < n && good; i++)
        good = whole(json_array_get(list, i), &v[i]);
    return good;
}

static bool read_bucket(const json_t *bucket, tg_bucket_cost *cost)
{
    cost->struct_size = sizeof *cost;
    return read_list(json_object_get(bucket, "encode_ns"), 2, cost->encode_ns) &&
           read_list(json_object_get(bucket, "start_ns"), 2, cost->start_ns) &&
           read_list(json_object_get(bucket, "decode_byte_ps"), 2, cost->decode_byte_ps) &&
           read_list(json_object_get(bucket, "finish_ns"), 2, cost->finish_ns) &&
           whole(json_object_get(bucket, "apply_ns"), &cost->apply_ns);
}

static bool read_all(const json_t *record, train_times *times)
{
    const json_t *buckets = json_object_get(record, "buckets");
    bool good = json_is_array(buckets);
    for (size_t w = 0; w < WORKS && good; w++)
        good = read_list(json_object_get(record, work_names[w]), times->layers,
                         times->layer_ns + w * times->layers);
    for (size_t b = 0; b < times->buckets && good; b++)
        good = read_bucket(json_array_get(buckets, b), &times->bucket[b]);
    return good;
}

static tg_status read_times(const char *path, const json_t *record, train_times *times_p)
{
    train_times times = {.known = true};
    times.layers = json_array_size(json_object_get(record, work_names[0]));
    times.buckets = json_array_size(json_object_get(record, "buckets"));
    times.layer_ns = calloc(WORKS * times.layers + 1, sizeof *times.layer_ns);
    times.bucket = calloc(times.buckets + 1, sizeof *times.bucket);
    tg_status status = TG_OK;
    if (!times.layer_ns || !times.bucket)
        status = tg_fail(TG_E_NOMEM, "out of memory: --tau %s", path);
    else if (times.layers == 0 || !read_all(record, &times))
        status = tg_fail(TG_E_CORRUPT, "--tau %s: the times in its start record are damaged", path);
    if (status != TG_OK) {
        train_times_free(&times);
        return status;
    }
    *times_p = times;
    return TG_OK;
}

/* ---- whether the computing is the same ------------------------------------------------------- */

/* The spec of a model with defaults filled in; NULL: it is not a model. The caller frees it. */
static tg_spec *model_spec(const char *text)
{
    tg_spec *spec = NULL;
    size_t count = 0;
    const tg_entry *const *models = model_entries(&count);
    return text && tg_spec_parse("model", models, count, text, &spec) == TG_OK ? spec : NULL;
}

static bool same_model(const char *a, const char *b)
{
    tg_spec *x = model_spec(a), *y = model_spec(b);
    const bool same = x && y && strcmp(tg_spec_text(x), tg_spec_text(y)) == 0;
    tg_spec_free(x);
    tg_spec_free(y);
    return same;
}

static tg_status check_text(const char *path, const char *name, const char *had, const char *want,
                            bool same)
{
    return same ? TG_OK
                : tg_fail(TG_E_MISMATCH, "--tau %s: was measured with --%s %s, this run has %s",
                          path, name, had ? had : "(none)", want);
}

static tg_status check_number(const char *path, const char *name, const json_t *record,
                              uint64_t want)
{
    const json_int_t had = json_integer_value(json_object_get(record, name));
    return (uint64_t)had == want ? TG_OK
                                 : tg_fail(TG_E_MISMATCH,
                                           "--tau %s: was measured with --%s %lld, this run has "
                                           "%llu",
                                           path, name, (long long)had, (unsigned long long)want);
}

/* Check that a step of the recorded run computes the same as a step of a run with options o. */
static tg_status check_computing(const struct run_options *o, const json_t *record)
{
    const char *had = json_string_value(json_object_get(record, "model"));
    const char *precision = json_string_value(json_object_get(record, "precision"));
    const char *own = train_precision_names[o->precision];
    TG_TRY(check_text(o->tau, "model", had, o->model, same_model(had, o->model)));
    TG_TRY(
        check_text(o->tau, "precision", precision, own, precision && strcmp(precision, own) == 0));
    TG_TRY(check_number(o->tau, "batch", record, o->batch));
    return o->context == 0 ? TG_OK : check_number(o->tau, "context", record, o->context);
}

static tg_status find(FILE *file, const struct run_options *o, train_times *times_p)
{
    const char *path = o->tau;
    char *line = NULL;
    size_t room = 0;
    tg_status status = tg_fail(
        TG_E_CORRUPT, "--tau %s: no record with times is in it: allowed: " CLOCK_OPTIONS_TAU, path);
    for (bool found = false; !found && getline(&line, &room, file) > 0;) {
        json_t *record = json_loads(line, 0, NULL);
        const json_t *times = json_object_get(record, "times");
        found = json_is_object(times);
        if (found)
            status = check_computing(o, record);
        if (found && status == TG_OK)
            status = read_times(path, times, times_p);
        json_decref(record);
    }
    free(line);
    return status;
}

tg_status step_times_read(const struct run_options *o, train_times *times_p)
{
    const char *path = o->tau;
    const char *why;
    const int fd = tg_readfile_open(path, TG_READ_REGULAR, NULL, &why);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd < 0)
        return tg_fail(TG_E_IO, "--tau %s: cannot be read: %s: allowed: " CLOCK_OPTIONS_TAU, path,
                       why);
    if (!file) {
        close(fd);
        return tg_fail(TG_E_NOMEM, "out of memory: --tau %s", path);
    }
    const tg_status status = find(file, o, times_p);
    fclose(file);
    return status;
}

tg_status step_times_explain(const struct run_options *o, tg_status status)
{
    char text[256];
    const char *costs = strstr(tg_error(), "costs of ");
    if (status != TG_E_MISMATCH || !o->tau || o->tau_ns != 0 || !costs)
        return status;
    snprintf(text, sizeof text, "%s", costs);
    return tg_fail(
        status,
        "--tau %s: %s: the run that was measured had other buckets; give the --fusion and "
        "--rule of that run",
        o->tau, text);
}
