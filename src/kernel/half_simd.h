/* Template of half_*.c. The including file defines how a vector is widened and narrowed: f16_get,
 * f16_from, bf16_get, bf16_from and put16; the clamping: narrow_clamp and all_within; and stream16
 * and stream_end. */

/* Outputs of this many elements leave the caches before they are read. Stores that bypass the
 * caches cost a quarter less for them, because the old bytes need not be read. */
#define STREAM_N ((size_t)8 << 20)

static inline vec16 narrow(vec x, bool brain)
{
    return brain ? bf16_from(x) : f16_from(x);
}

static inline void encode_part(tg__word *dst, const float *src, size_t n, bool brain)
{
    const uint32_t largest = brain ? TG__BF16_LARGEST : TG__F16_LARGEST;
    EACH_VEC(n, put16(dst + i, left, narrow(narrow_clamp(GET(src), largest), brain)););
}

/* n is a multiple of 4 * WIDTH; dst is aligned to a vector if it is streamed. */
static inline void encode_fours(tg__word *dst, const float *src, size_t n, bool brain, bool stream)
{
    const uint32_t largest = brain ? TG__BF16_LARGEST : TG__F16_LARGEST;
    for (size_t i = 0; i < n; i += 4 * WIDTH) {
        vec x[4];
        for (size_t j = 0; j < 4; j++)
            x[j] = vec_get(src + i + WIDTH * j, WIDTH);
        if (!all_within(x, largest))
            for (size_t j = 0; j < 4; j++)
                x[j] = narrow_clamp(x[j], largest);
        for (size_t j = 0; j < 4; j++) {
            if (stream)
                stream16(dst + i + WIDTH * j, narrow(x[j], brain));
            else
                put16(dst + i + WIDTH * j, WIDTH, narrow(x[j], brain));
        }
    }
}

static inline void encode(tg__word *dst, const float *src, size_t n, bool brain)
{
    if (WIDTH == 1 || n < 4 * WIDTH) { /* if n is 0, both may be NULL: adding 0 is undefined */
        encode_part(dst, src, n, brain);
        return;
    }
    size_t head = (0 - (uintptr_t)dst) % 64 / 2;
    if (n >= STREAM_N && (uintptr_t)dst % 2 == 0) {
        encode_part(dst, src, head, brain);
        dst += head;
        src += head;
        n -= head;
        encode_fours(dst, src, n - n % (4 * WIDTH), brain, true);
        stream_end();
    } else {
        encode_fours(dst, src, n - n % (4 * WIDTH), brain, false);
    }
    size_t done = n - n % (4 * WIDTH);
    encode_part(dst + done, src + done, n - done, brain);
}

static void f16_encode(void *dst, const float *src, size_t n)
{
    encode(dst, src, n, false);
}

static void bf16_encode(void *dst, const float *src, size_t n)
{
    encode(dst, src, n, true);
}

static void f16_decode(float *dst, const void *words, size_t n)
{
    const tg__word *src = words;
    EACH_VEC(n, PUT(dst, f16_get(src + i, left)););
}

static void f16_decode_add(float *dst, const void *words, size_t n)
{
    const tg__word *src = words;
    EACH_VEC(n, PUT(dst, GET(dst) + f16_get(src + i, left)););
}

static void bf16_decode(float *dst, const void *words, size_t n)
{
    const tg__word *src = words;
    EACH_VEC(n, PUT(dst, bf16_get(src + i, left)););
}

static void bf16_decode_add(float *dst, const void *words, size_t n)
{
    const tg__word *src = words;
    EACH_VEC(n, PUT(dst, GET(dst) + bf16_get(src + i, left)););
}

static void fill(tg__kernels *table)
{
    table->f16_encode = f16_encode;
    table->f16_decode = f16_decode;
    table->f16_decode_add = f16_decode_add;
    table->bf16_encode = bf16_encode;
    table->bf16_decode = bf16_decode;
    table->bf16_decode_add = bf16_decode_add;
}
