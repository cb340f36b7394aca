/* Template of twobit_*.c. The including file defines
 *
 *     planes, planes_clear, planes_put   the codes of a block while they are collected
 *     code                               collect those of the scores s, vector j; returns
 *                                        p - tau * code
 *     decode_vec, decode_add_vec         tau * code of vector j; x + tau * code
 *
 * Each block function works on m <= 64 elements; m = 64 is a constant in the main loops. */

/* Vector j of a block; missing lanes are 0, which is less than tau. */
static inline vec part(const float *p, size_t m, size_t j)
{
    return WIDTH * j < m ? vec_get(p + WIDTH * j, m - WIDTH * j) : vec_splat(0);
}

TG__INLINED void encode_block(const float *p, size_t m, vec tau, uint8_t *bytes)
{
    planes to;
    planes_clear(&to);
    for (size_t j = 0; j < 64 / WIDTH; j++) {
        const vec s = part(p, m, j);
        (void)code(s, s, tau, j, &to);
    }
    planes_put(bytes, m, &to);
}

TG__INLINED void ahead_encode_block(const float *p, const float *g, size_t m, float ahead, vec tau,
                                    uint8_t *bytes)
{
    planes to;
    planes_clear(&to);
    for (size_t j = 0; j < 64 / WIDTH; j++) {
        const vec s = part(p, m, j) + ahead * part(g, m, j);
        (void)code(s, s, tau, j, &to);
    }
    planes_put(bytes, m, &to);
}

TG__INLINED void add_encode_block(float *r, const float *g, size_t m, float ahead, vec tau,
                                  uint8_t *bytes)
{
    planes to;
    planes_clear(&to);
    for (size_t j = 0; j < 64 / WIDTH; j++) {
        const vec last = part(g, m, j), p = part(r, m, j) + last;
        vec s = p;
        if (ahead != 0)
            s += ahead * last;
        const vec rest = code(s, p, tau, j, &to);
        if (WIDTH * j < m)
            vec_put(r + WIDTH * j, m - WIDTH * j, rest);
    }
    planes_put(bytes, m, &to);
}

static inline void decode_add_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plus, minus;
    tg__twobit_codes(bytes, m, &plus, &minus);
    for (size_t j = 0; WIDTH * j < m; j++) {
        const size_t left = m - WIDTH * j;
        const vec x = vec_get(dst + WIDTH * j, left);
        vec_put(dst + WIDTH * j, left, decode_add_vec(x, tau, j, plus, minus));
    }
}

static inline void decode_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plus, minus;
    tg__twobit_codes(bytes, m, &plus, &minus);
    for (size_t j = 0; WIDTH * j < m; j++)
        vec_put(dst + WIDTH * j, m - WIDTH * j, decode_vec(tau, j, plus, minus));
}

/* Run the statement for each block: m elements from i on, whose codes begin at bytes. */
#define EACH_BLOCK(statement)                       \
    do {                                            \
        size_t i = 0;                               \
        for (; i + 64 <= n; i += 64, bytes += 16) { \
            const size_t m = 64;                    \
            statement;                              \
        }                                           \
        if (i < n) {                                \
            const size_t m = n - i;                 \
            statement;                              \
        }                                           \
    } while (0)

static void twobit_encode(const float *p, size_t n, float tau, uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    EACH_BLOCK(encode_block(p + i, m, vtau, bytes));
}

static void twobit_ahead_encode(const float *p, const float *g, size_t n, float ahead, float tau,
                                uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    EACH_BLOCK(ahead_encode_block(p + i, g + i, m, ahead, vtau, bytes));
}

static void twobit_add_encode(float *r, const float *g, size_t n, float ahead, float tau,
                              uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    if (ahead == 0) /* 0 * g may be NaN */
        EACH_BLOCK(add_encode_block(r + i, g + i, m, 0, vtau, bytes));
    else
        EACH_BLOCK(add_encode_block(r + i, g + i, m, ahead, vtau, bytes));
}

static void twobit_decode_add(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    EACH_BLOCK(decode_add_block(dst + i, bytes, m, vtau));
}

static void twobit_decode(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    EACH_BLOCK(decode_block(dst + i, bytes, m, vtau));
}

static void fill(tg__kernels *table)
{
    table->twobit_encode = twobit_encode;
    table->twobit_ahead_encode = twobit_ahead_encode;
    table->twobit_add_encode = twobit_add_encode;
    table->twobit_decode_add = twobit_decode_add;
    table->twobit_decode = twobit_decode;
}
