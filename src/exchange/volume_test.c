/* How much many ranks send: the sum of sparse vectors gets denser with every rank; the test
 * measures the cost of allowing that or not. Prints the tables of docs/results/sparse-allreduce.md;
 * up to 64 ranks take turns in one thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "telegrad/clock.h"

enum { N = 1 << 20, MAX_RANKS = 64 };

/* Uniform in (-1, 1), from a fast hash of i (Steele et al. 2014, SplitMix). */
static float noise(uint64_t stream, uint64_t i)
{
    uint64_t z = (stream << 40) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((int32_t)(z >> 32)) * 0x1p-31f;
}

/* A rank's vector (N); alike: half of its variance is shared by all ranks. */
static const float *vector_of(int rank, bool alike)
{
    static float v[N];
    for (size_t i = 0; i < N; i++)
        v[i] = noise((uint64_t)rank + 1, i) + (alike ? noise(0, i) : 0);
    return v;
}

/* Bytes sent by the rank that sends most; *said_p: the prediction of its cost(). */
static double volume(int size, const char *exchange, const char *spec, double *said_p)
{
    static tg_transport *t[MAX_RANKS];
    static tg_codec *codec[MAX_RANKS];
    static tg__pump p[MAX_RANKS];
    static tg__flight f[MAX_RANKS];
    const fixture_case c = {exchange, spec, N};
    double most = 0, frame = 0;
    tg__cost cost;
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int r = 0; r < size; r++) {
        f[r] = (tg__flight){.step = 1};
        assert_int_equal(fixture_create(&c, r, size, &codec[r], &f[r].x), TG_OK);
        tg__exchange *x = f[r].x;
        x->context = fixture_owner_context(1, r);
        assert_int_equal(tg__codec_encode(codec[r], &x->context, vector_of(r, false), N, x->parts,
                                          x->nparts, NULL),
                         TG_OK);
        for (size_t q = 0; q < x->nparts; q++)
            frame += (double)x->parts[q].len / size;
        tg__pump_init(&p[r], t[r], 8, INT64_C(60000000000));
        assert_int_equal(tg__pump_launch(&p[r], &f[r]), TG_OK);
    }
    for (bool busy = true; busy;) {
        busy = false;
        for (int r = 0; r < size; r++) {
            if (tg__pump_run(&p[r], tg_now_ns(t[r]->clock)) != TG_OK)
                fail_msg("rank %d: %s", r, tg_error());
            busy |= !f[r].finished;
        }
    }
    for (int r = 0; r < size; r++) {
        most = fmax(most, (double)f[r].bytes_sent);
        tg__flight_fini(&f[r]);
        tg__exchange_destroy(f[r].x);
        tg_codec_destroy(codec[r]);
        tg__pump_fini(&p[r]);
        tg_transport_destroy(t[r]);
    }
    tg__exchange_find(exchange)->cost(size, N, frame, &cost);
    *said_p = cost.bytes;
    return most;
}

/* Fraction of elements that are not 0 after adding the frames of 1, 2, 4, ... ranks. */
static void print_density(bool alike, double density[7])
{
    static float sum[N];
    tg_codec *codec = NULL;
    assert_int_equal(tg_codec_create("topk:density=0.01", &codec), TG_OK);
    tg__part part = {.cap = tg__codec_bound(codec, N), .hi = N};
    const tg_encode_context ctx = {.struct_size = sizeof ctx};
    part.dst = malloc(part.cap);
    assert_non_null(part.dst);
    memset(sum, 0, sizeof sum);
    for (int r = 0, row = 0; r < MAX_RANKS; r++) {
        size_t count = 0;
        assert_int_equal(tg__codec_encode(codec, &ctx, vector_of(r, alike), N, &part, 1, NULL),
                         TG_OK);
        tg__frame_decode_add(part.dst, part.len, sum, NULL);
        if (r + 1 != 1 << row)
            continue;
        for (size_t i = 0; i < N; i++)
            count += sum[i] != 0;
        density[row] = (double)count / N;
        print_message(" %6.2f %%", 100 * density[row++]);
    }
    print_message("\n");
    free(part.dst);
    tg_codec_destroy(codec);
}

static void test_volume(void **state)
{
    static const struct {
        const char *exchange, *codec;
        int rows; /* up to 2^rows ranks: whole vectors of all ranks take memory */
    } rows[] = {{"allgather", "topk:density=0.01,values=int8", 4},
                {"gtopk", "topk:density=0.01,values=int8", 4},
                {"reducescatter", "topk:density=0.01,values=int8", 6}};
    static double bytes[TG_COUNT(rows)][7];
    double apart[7], alike[7];
    (void)state;
    print_message("ranks                      1        2        4        8       16       32       "
                  "64\n");
    print_message("half in common     ");
    print_density(true, alike);
    print_message("nothing in common  ");
    print_density(false, apart);
    for (size_t i = 0; i < TG_COUNT(rows); i++) {
        print_message("%-13s kB        ", rows[i].exchange);
        for (int k = 1; k <= rows[i].rows; k++) {
            double said;
            bytes[i][k] = volume(1 << k, rows[i].exchange, rows[i].codec, &said);
            print_message(" %8.1f", bytes[i][k] * 1e-3);
            if (fabs(bytes[i][k] - said) > 0.1 * said)
                fail_msg("%s: cost says %.0f bytes", rows[i].exchange, said);
        }
        print_message("\n");
    }
    print_message("dense ring    kB        ");
    for (int k = 1; k <= 6; k++)
        print_message(" %8.1f", tg__dense_bytes(1 << k, N) * 1e-3);
    print_message("\n");
    for (int k = 0; k < 7; k++) {
        const double independent = 1 - pow(0.99, 1 << k);
        assert_true(fabs(apart[k] - independent) < 0.02 * independent);
        assert_true(alike[k] < 1.01 * apart[k]);
    }
    assert_true(bytes[0][4] > 14 * bytes[0][1]);  /* P - 1 frames */
    assert_true(bytes[1][4] > 3.9 * bytes[1][1]); /* log2 P frames */
    assert_true(bytes[2][6] < 1.4 * bytes[2][3]); /* constant, apart from envelopes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
