#include "report/epoch_waits.h"

void epoch_waits_add(json_t **list_p, const json_t *record)
{
    json_t *to = json_object_get(record, "waited_for_s"),
           *by = json_object_get(record, "waited_by_s");
    const size_t ranks = json_array_size(to);
    if (ranks == 0 || json_array_size(by) != ranks)
        return;
    if (!*list_p)
        *list_p = json_array();
    json_array_append_new(*list_p, json_pack("{s:O, s:O, s:O}", "step",
                                             json_object_get(record, "step"), "for", to, "by", by));
}

void epoch_waits_drop_after(json_t *list, double step)
{
    size_t count = json_array_size(list);
    while (count > 0 &&
           json_number_value(json_object_get(json_array_get(list, count - 1), "step")) > step)
        json_array_remove(list, --count);
}

static size_t ranks_of(const json_t *epoch)
{
    return json_array_size(json_object_get(epoch, "for"));
}

/* sums (ranks) += values */
static void add(json_t *sums, const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++)
        json_array_set_new(sums, i,
                           json_real(json_number_value(json_array_get(sums, i)) +
                                     json_number_value(json_array_get(values, i))));
}

static json_t *zeros(size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_real(0));
    return list;
}

static json_t *empty(size_t ranks)
{
    return json_pack("{s:i, s:o, s:o}", "epochs", 0, "for", zeros(ranks), "by", zeros(ranks));
}

json_t *epoch_waits_json(const json_t *list, size_t most)
{
    const size_t all = json_array_size(list);
    const size_t ranks = all ? ranks_of(json_array_get(list, all - 1)) : 0;
    size_t first = all;
    while (first > 0 && ranks_of(json_array_get(list, first - 1)) == ranks)
        first--;
    const size_t count = all - first, groups = count < most ? count : most;
    if (count < 2 || groups < 2)
        return json_null();
    json_t *result = json_array();
    for (size_t g = 0; g < groups; g++) {
        const size_t begin = first + g * count / groups, end = first + (g + 1) * count / groups;
        json_t *group = empty(ranks);
        for (size_t i = begin; group && i < end; i++) {
            const json_t *epoch = json_array_get(list, i);
            add(json_object_get(group, "for"), json_object_get(epoch, "for"));
            add(json_object_get(group, "by"), json_object_get(epoch, "by"));
        }
        json_object_set_new(group, "epochs", json_integer((json_int_t)(end - begin)));
        json_array_append_new(result, group);
    }
    return result;
}
