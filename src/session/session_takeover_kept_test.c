/* Resuming with another number of ranks: sums that wait are kept to the bit where they are exact;
 * memories of owners and of nodes; saving again what was taken over; what begins anew is said, and
 * what cannot be loaded is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "takeover_compare.h"

/* ---- exactly --------------------------------------------------------------------------------- */

/* Where all sums are exact, those of what waits are P'/P times the old ones, to the bit: residual;
 * velocity and what it has accumulated; what is owed of exchanges in flight; leftovers of sums. */
static void test_exact_sums(void **state)
{
    char *const dir = *state;
    static const char *const pairs[][2] = {
        {"topk:density=0.1,values=f32", "ssgd"},
        {"topk:density=0.1,values=f32", "pipe:width=3"},
        {"topk:density=0.1,values=f32,exchange=reducescatter", "ssgd"},
        {"topk:density=0.1,values=f32,exchange=reducescatter", "pipe:width=2"},
        {"topk:density=0.1,values=f32,exchange=gtopk", "ssgd"},
        {"randomk:density=0.1,values=f32", "ssgd"},
        {"cltk:density=0.1,values=f32", "ssgd"},
        {"2bit:threshold=0.25", "ssgd"},
        {"strom:threshold=0.5", "ssgd"},
        {"blocktopk:keep=7,values=f32,decay=1", "ssgd"},
        {"dgc:density=0.05,warmup=0,values=f32,momentum=0.5", "ssgd"},
        {"csc:chunk=32,density=0.2,warmup=2,momentum=0.5", "ssgd"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        job j = job_of(pairs[i][0], pairs[i][1]);
        j.f.optimizer = "sgd:lr=0.25";
        j.f.dyadic = true;
        j.f.world = 4;
        j.f.save_dir = dir;
        clear(dir);
        run_well(&j, saved);
        double waits = 0;
        for (size_t p = 0; p < saved[0].parts; p++)
            for (size_t e = 0; saved[0].part[p].key[0] == ':' && e < saved[0].part[p].n; e++)
                waits += fabs((double)saved[0].part[p].value[e]);
        assert_true(waits > 0);
        check_loaded(j, 4, 3, dir, true);
        check_loaded(j, 4, 8, dir, true);
        check_loaded(j, 4, 1, dir, true);
    }
}

/* Owners' residuals are cut anew. */
static void test_owners(void **state)
{
    char *const dir = *state;
    job j = job_of("1bit:twoway=yes,rescale=yes", "ssgd");
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        clear(dir);
        j.f.world = changes[c][0];
        j.f.save_dir = dir;
        run_well(&j, saved);
        check_loaded(j, changes[c][0], changes[c][1], dir, false);
        j.f.world = changes[c][1];
        assert_true(compare_pieces(&j, changes[c][0]) >= FIXTURE_TENSORS);
    }
}

/* Leaders take over from leaders, or from ranks that had a memory each, or give it to such. */
static void test_nodes(void **state)
{
    char *const dir = *state;
    static const int nodes[][8] = {{0, 0, 1, 1}, {0, 1, 1}, {0, 0, 0, 1, 1, 2, 2, 2}, {0, 1, 0, 1}};
    static const struct {
        int before, after;
        const int *had, *have;
    } cases[] = {{4, 3, nodes[0], nodes[1]}, {4, 8, nodes[0], nodes[2]}, {4, 3, nodes[3], NULL},
                 {3, 4, NULL, nodes[3]},     {8, 4, nodes[2], nodes[0]}, {3, 1, nodes[1], NULL}};
    static const char *const methods[] = {"topk:density=0.1", "powersgd:rank=2", "1bit:twoway=yes",
                                          "strom:threshold=auto,target=0.05",
                                          "topk:density=0.1,exchange=reducescatter"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            job j = job_of(methods[m], m == 4 ? "pipe:width=2" : m == 0 ? "cd:k=3" : "ssgd");
            clear(dir);
            j.f.world = cases[c].before;
            j.f.nodes = cases[c].had;
            j.f.save_dir = dir;
            run_well(&j, saved);
            j.f.nodes = cases[c].have;
            check_loaded(j, cases[c].before, cases[c].after, dir, false);
        }
}

/* What came from others is saved as one's own: going on from that gives the same bits as never
 * having stopped. */
static void test_saved_again(void **state)
{
    char *const dir = *state;
    static const char *const pairs[][2] = {
        {"dgc:density=0.05,warmup=3ep", "ssgd"},
        {"2bit", "cd:k=3,warmup=2ep"},
        {"1bit:twoway=yes", "ssgd"},
        {"topk:density=0.1,exchange=auto", "ssgd"},
        {"topk:density=0.1", "streaming:every=4,overlap=2"},
        {"dense", "gossip:overlap=2,mean=5"},
        {"powersgd:rank=2,start=1ep", "local:every=4,after=1ep"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        job j = job_of(pairs[i][0], pairs[i][1]);
        clear(dir);
        j.f.world = 4;
        j.f.save_dir = dir;
        run_well(&j, saved);
        j.f.world = 3;
        j.steps_per_epoch = 5;
        j.f.load_dir = dir;
        j.f.save_at = 9;
        j.look_at_load = false;
        run_well(&j, saved);
        const uint64_t end = saved[0].end_hash;
        assert_int_equal(saved[0].first, 6);
        assert_true(saved[0].epoch_shift == -1); /* half an epoch of 4: position 7 of 5 */
        j.f.save_dir = NULL;
        run_well(&j, loaded);
        assert_int_equal(loaded[0].first, 9);
        assert_true(loaded[0].epoch_shift == -1);
        if (loaded[0].end_hash != end)
            fail_msg("%s, %s: saved again, it ends elsewhere", j.f.method, j.f.strategy);
    }
}

/* The largest momentum of all ranks. */
static double momentum(const had *h, int world)
{
    double most = 0;
    for (int r = 0; r < world; r++)
        for (size_t p = 0; p < h[r].parts; p++)
            for (size_t e = 0; strstr(h[r].part[p].key, "momentum") && e < h[r].part[p].n; e++)
                most = fmax(most, fabs((double)h[r].part[p].value[e]));
    return most;
}

/* What cannot be taken over is said, and where nothing is under way nothing is lost but momentum of
 * ranks that were drawn more or less often. */
static void test_said(void **state)
{
    char *const dir = *state;
    for (uint64_t at = 6; at <= 8; at += 2)
        for (int clients = 0; clients < 2; clients++) {
            job j = job_of("dense", clients ? "fedavg:every=4,clients=0.5" : "local:every=4");
            const char *said =
                clients && at == 6
                    ? "the round under way and the optimizers' states of strategy fedavg"
                : clients ? "the optimizers' states of strategy fedavg"
                          : "";
            clear(dir);
            j.f.world = 4;
            j.f.save_dir = dir;
            j.f.save_at = at;
            run_well(&j, saved);
            check_loaded(j, 4, 3, dir, false);
            assert_string_equal(loaded[0].anew, said);
            assert_true(momentum(saved, 4) > 0);
            assert_true((momentum(loaded, 3) > 0) == !clients);
            if (clients && at == 6)
                assert_memory_equal(loaded[1].w, loaded[1].global, sizeof loaded[1].w);
        }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void assert_refused(const job *j, tg_status status, const char *say)
{
    run(j, loaded);
    for (int r = 0; r < j->f.world; r++)
        if (loaded[r].status != status || strstr(loaded[r].error, say) == NULL)
            fail_msg("rank %d: %s: %s", r, tg_status_name(loaded[r].status), loaded[r].error);
}

static void shell(const char *format, const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, format, dir);
    assert_int_equal(system(command), 0);
}

static void test_refused(void **state)
{
    char *const dir = *state;
    job j = job_of("topk:density=0.1", "ssgd");
    clear(dir);
    j.f.world = 4;
    j.f.save_dir = dir;
    run_well(&j, saved);
    j.f.world = 3;
    j.f.save_dir = NULL;
    j.f.load_dir = dir;
    j.f.method = "fp16";
    assert_refused(&j, TG_E_MISMATCH, "method=topk");
    j.f.method = "topk:density=0.1";
    shell("mv %s/step-*/rank-0003.tg /tmp/telegrad-rank-3", dir); /* that rank 2 alone reads */
    assert_refused(&j, TG_E_IO,
                   "rank-0003.tg: No such file or directory: 3 ranks take over from 4");
    shell("cp %s/step-*/rank-0002.tg $(echo %1$s/step-*)/rank-0003.tg", dir);
    assert_refused(&j, TG_E_MISMATCH, "the file of rank 3 of 4 in step 6 is one of rank 2 of 4");
    shell("head -c 3000 /tmp/telegrad-rank-3 > $(echo %s/step-*)/rank-0003.tg", dir);
    assert_refused(&j, TG_E_CORRUPT, "rank-0003.tg");
    shell("mv /tmp/telegrad-rank-3 $(echo %s/step-*)/rank-0003.tg", dir);
    j.f.world = 4; /* as many as saved it: its own is missing */
    shell("mv %s/step-*/rank-0003.tg /tmp/telegrad-rank-3", dir);
    assert_refused(&j, TG_E_IO, "has no file of rank 3: use the folder that");
    shell("mv /tmp/telegrad-rank-3 $(echo %s/step-*)/rank-0003.tg", dir);
    j.f.world = 3;
    run_well(&j, loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_sums), cmocka_unit_test(test_owners),
        cmocka_unit_test(test_nodes),      cmocka_unit_test(test_saved_again),
        cmocka_unit_test(test_said),       cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
