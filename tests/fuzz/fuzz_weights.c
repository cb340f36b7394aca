/* Any bytes as a file of weights. It is parsed without a fault, and all results lie inside it. The
 * length of the header is also corrected, so that the code after that check is reached. */
#include "fuzz/fuzz_tools.h"
#include "state/weights_impl.h"

static void read_all(const tg_weights *w, const uint8_t *bytes, size_t size)
{
    const uint8_t *end = bytes + size;
    uint64_t total = 0;
    for (size_t i = 0; i < w->count; i++) {
        const tg__weights_entry *e = &w->entry[i];
        const uint8_t *begin = w->data + e->begin;
        if (begin < bytes || begin > end || e->end - e->begin > (uint64_t)(end - begin) ||
            e->end - e->begin != (uint64_t)e->n * e->type->bytes)
            abort();
        total += e->end - e->begin;
        float *x = fuzz_floats(e->n);
        const tg_weights_tensor t = {e->name, e->shape, e->ndim, x};
        fuzz_refused(tg_weights_read(w, &t, 1, i % 2));
        free(x);
    }
    if (total != w->data_bytes)
        abort();
    for (size_t i = 0; i < w->npairs; i++)
        if (tg_weights_metadata(w, w->pair[i].name) != w->pair[i].text)
            abort();
}

static void try_parse(const uint8_t *bytes, size_t size)
{
    tg_weights *w;
    tg_status status = tg__weights_parse(bytes, size, "input", &w);
    fuzz_refused(status);
    if (status != TG_OK)
        return;
    read_all(w, bytes, size);
    tg_weights_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_copy(data, size);
    try_parse(bytes, size);
    /* The header ends at the last bracket. */
    for (size_t at = size; at > TG__WEIGHTS_HEAD; at--) {
        if (bytes[at - 1] != '}')
            continue;
        tg__put64(bytes, at - TG__WEIGHTS_HEAD);
        try_parse(bytes, size);
        break;
    }
    free(bytes);
    return 0;
}
