/* Any finite floats through the codec FUZZ_CODEC. The frames are valid, fit, are the same when
 * encoded again, and decode to the values that the codec reported. */
#include "codec_specs.h"
#include "fuzz_tools.h"
#include "telegrad/random.h"

typedef struct input {
    tg_encode_context ctx;
    tg_segment segments[3];
    bool with_context;
    size_t n, cut;
    float *x;
} input;

/* Add a tensor after the earlier ones; none if no elements are left. */
static void add_segment(input *in, size_t *count_p, size_t rows, size_t cols)
{
    const tg_segment *before = *count_p > 0 ? &in->segments[*count_p - 1] : NULL;
    if (rows * cols > 0)
        in->segments[(*count_p)++] = (tg_segment){.begin = before ? before->begin + before->n : 0,
                                                  .n = rows * cols,
                                                  .rows = rows,
                                                  .cols = cols};
}

/* Read tensors: a vector, a matrix, and the rest. */
static bool read_input(const uint8_t *data, size_t size, input *in)
{
    size_t n = TG__MIN((size_t)tg__get16(data + 2), (size_t)FUZZ_ENCODE_MAX);
    size_t have = (size - FUZZ_ENCODE_HEAD) / sizeof(float);
    size_t middle = tg__get16(data + 6) % (n + 1);
    if (n > 0 && have == 0)
        return false;
    *in = (input){.with_context = data[1] & 1, .n = n, .cut = tg__get16(data + 4) % (n + 1)};
    in->x = fuzz_floats(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = tg__get32(data + FUZZ_ENCODE_HEAD + i % have * 4);
        if ((bits & 0x7f800000u) == 0x7f800000u)
            bits ^= 0x40000000u; /* now it is finite */
        memcpy(&in->x[i], &bits, sizeof bits);
    }
    size_t rows = TG__MAX(data[1] >> 1, 1), cols = (n - middle) / rows, count = 0;
    add_segment(in, &count, middle, 1);
    add_segment(in, &count, rows, cols);
    add_segment(in, &count, n - middle - rows * cols, 1);
    in->ctx = (tg_encode_context){
        .struct_size = sizeof in->ctx,
        .rng = {.seed = data[9], .purpose = TG_PURPOSE_CODEC, .step = 3},
        .density = data[8] / 255.0,
        .segments = n > 0 ? in->segments : NULL,
        .nsegments = count,
    };
    return true;
}

static void write_dense(const tg__view *view, size_t n, float *dst)
{
    if (!view->sparse && n > 0)
        memcpy(dst, view->dense, n * sizeof *dst);
    for (size_t i = 0; view->sparse && i < view->k; i++) {
        if (view->idx[i] >= n || (i > 0 && view->idx[i] <= view->idx[i - 1]))
            abort();
        dst[view->idx[i]] = view->val[i];
    }
}

/* Check that the frames are valid and decode to the view. */
static void check_frames(const tg_codec *c, const input *in, const tg__part *parts, size_t nparts,
                         const tg__view *view)
{
    float *want = fuzz_floats(in->n), *got = fuzz_floats(in->n);
    write_dense(view, in->n, want);
    for (size_t i = 0; i < nparts; i++) {
        const tg__part *p = &parts[i];
        size_t n = p->hi - p->lo;
        if (p->len > p->cap || p->kept > n ||
            tg__frame_check(p->dst, p->len, n, c->ops->wire_id) != TG_OK)
            abort();
        tg__frame_decode(p->dst, p->len, got + p->lo, NULL);
    }
    if (in->n > 0 && memcmp(want, got, in->n * sizeof *got) != 0)
        abort();
    if (c->ops->properties & TG__LOSSLESS && in->n > 0 &&
        memcmp(in->x, got, in->n * sizeof *got) != 0)
        abort();
    free(want);
    free(got);
}

/* Encode into nparts parts cut at in->cut, and check them. *hash_p: hash of the frames. */
static void encode(tg_codec *c, input *in, size_t nparts, uint64_t *hash_p)
{
    const size_t cuts[] = {0, nparts == 2 ? in->cut : in->n, in->n};
    tg__part parts[2];
    tg__view view = {0};
    *hash_p = TG_HASH_START;
    for (size_t i = 0; i < nparts; i++) {
        size_t bound = tg__codec_bound(c, cuts[i + 1] - cuts[i]);
        parts[i] = (tg__part){
            .dst = fuzz_copy(NULL, bound), .cap = bound, .lo = cuts[i], .hi = cuts[i + 1]};
    }
    tg_status status =
        tg__codec_encode(c, in->with_context ? &in->ctx : NULL, in->x, in->n, parts, nparts, &view);
    if (status == TG_OK)
        check_frames(c, in, parts, nparts, &view);
    else if (status != TG_E_UNSUPPORTED || nparts == 1) /* whole-vector codecs may refuse parts */
        abort();
    for (size_t i = 0; i < nparts; i++) {
        *hash_p = tg_hash(*hash_p, parts[i].dst, parts[i].len);
        free(parts[i].dst);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char spec[CODEC_SPEC_MAX];
    input in;
    if (size < FUZZ_ENCODE_HEAD ||
        !codec_spec(&tg__codec_by_id(FUZZ_CODEC)->entry, data[0], spec) ||
        !read_input(data, size, &in))
        return 0;
    tg_codec *c;
    if (tg_codec_create(spec, &c) != TG_OK)
        abort();
    for (size_t nparts = 1; nparts <= 2; nparts++) {
        uint64_t first, again;
        size_t remembered = tg_codec_memory(c) * TG__MAX(in.ctx.nsegments, (size_t)1);
        float *memory = fuzz_floats(remembered), *fresh = fuzz_floats(remembered);
        in.ctx.memory = memory;
        encode(c, &in, nparts, &first);
        in.ctx.memory = fresh;
        encode(c, &in, nparts, &again);
        if (first != again)
            abort();
        encode(c, &in, nparts, &again); /* now with the memory of the last one */
        free(memory);
        free(fresh);
    }
    tg_codec_destroy(c);
    free(in.x);
    return 0;
}
