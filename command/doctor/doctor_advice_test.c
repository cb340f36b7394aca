/* What `telegrad doctor` advises, and that findings survive the way to another rank. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "command/doctor/doctor_findings.h"
#include "telegrad/tools.h"
#include "telegrad/transport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

/* Machines and links that nothing is wrong with: 94 Mbit/s, 20 ms. */
static void healthy(struct doctor_findings *f)
{
    assert_int_equal(doctor_findings_create(RANKS, f), TG_OK);
    for (int r = 0; r < RANKS; r++)
        f->machine[r] = (struct doctor_machine){.host = "host",
                                                .version = "1.2.3",
                                                .system = "Linux 6",
                                                .congestion = "bbr",
                                                .idle_restart = true,
                                                .receive_bytes = 6e6,
                                                .send_bytes = 4e6};
    for (int i = 0; i < RANKS * RANKS; i++)
        f->way[i] = (struct doctor_way){
            .link = {.delay_s = 0.02, .jitter_s = 0.001, .ahead_s = 0.003, .rate_bps = 94e6},
            .sent = 5000,
            .resent = 1};
}

static void append(void *arg, const char *sentence)
{
    char *all = arg;
    assert_true(strlen(all) + strlen(sentence) < 4000);
    strcat(strcat(all, sentence), "\n");
}

/* The advice that is given besides the last line, which is always there. */
static const char *advice(const struct doctor_findings *f)
{
    static char all[4096];
    all[0] = '\0';
    doctor_advise(f, append, all);
    char *last = strstr(all, "which method suits these links: telegrad advise ");
    assert_non_null(last);
    *last = '\0';
    return all;
}

static void expect(struct doctor_findings *f, const char *words)
{
    const char *all = advice(f);
    if (!strstr(all, words))
        fail_msg("\"%s\" is not in: %s", words, all);
    assert_ptr_equal(strchr(all, '\n') + 1, all + strlen(all)); /* nothing else is */
    doctor_findings_free(f);
    healthy(f);
}

static void advice_fits(void **state)
{
    (void)state;
    struct doctor_findings f;
    healthy(&f);
    assert_string_equal(advice(&f), "");
    strcpy(f.machine[2].version, "1.3.0");
    expect(&f, "rank 2 (host) runs telegrad 1.3.0, rank 0 runs 1.2.3");
    f.way[1 * RANKS + 2].relayed = f.way[2 * RANKS + 1].relayed = true;
    expect(&f, "ranks 1 and 2 do not reach each other");
    for (int r = 0; r < 2; r++)
        f.way[r * RANKS + 2].link.rate_bps = 20e6; /* its way in */
    expect(&f, "rank 2 (host) has a link of 20 Mbit/s, where others have 94");
    strcpy(f.machine[1].congestion, "cubic");
    f.machine[1].idle_restart = false;
    expect(&f, "rank 1 (host): without congestion control bbr");
    for (int r = 0; r < RANKS; r++) {
        strcpy(f.machine[r].congestion, "reno");
        f.machine[r].idle_restart = false;
    }
    expect(&f, "all ranks: without congestion control bbr");
    f.machine[0].send_bytes = 0.5e6;
    expect(&f, "rank 0 (host) buffers at most 500 kB to send for a connection");
    f.machine[2].receive_bytes = 0.5e6;
    expect(&f, "rank 2 (host) buffers at most 500 kB received for a connection, and its links hold "
               "470 kB: as root, raise the last number of net.ipv4.tcp_rmem to 1880000\n");
    f.machine[0].send_bytes = 0.5e6; /* its links out are slow */
    for (int p = 1; p < RANKS; p++)
        f.way[p].link.rate_bps = 48e6;
    assert_string_equal(advice(&f), "");
    doctor_findings_free(&f);
    healthy(&f);
    f.way[1].link.rate_bps = 0; /* not measured, which says nothing about the others */
    assert_string_equal(advice(&f), "");
    doctor_findings_free(&f);
    healthy(&f);
    f.way[1].link.ahead_s = -90;
    expect(&f, "the clock of rank 1 (host) is 90.0 s behind rank 0's");
    strcpy(f.machine[1].congestion, "cubic"); /* harmless where delays are short */
    for (int i = 0; i < RANKS * RANKS; i++)
        f.way[i].link.delay_s = 0.001;
    assert_string_equal(advice(&f), "");
    doctor_findings_free(&f);
}

/* What --link takes, with no more digits than were measured, and no exponent. */
static void a_link_to_paste(void **state)
{
    (void)state;
    static const struct {
        double rate_bps, delay_s;
        const char *link;
    } cases[] = {{94.123e6, 0.0201234, "94.1mbit,20.1ms"}, {999.96e6, 1.2345, "1000mbit,1234ms"},
                 {3566.53e6, 9.97e-6, "3567mbit,0.010ms"}, {28123.4e6, 1e-9, "28123mbit,0.001ms"},
                 {5.5e6, 0.09996, "5.50mbit,100.0ms"},     {1000, 0.5, "0.001mbit,500ms"}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        struct doctor_findings f;
        char all[4096] = "", expected[128];
        tg_link link = {.struct_size = sizeof link};
        healthy(&f);
        for (int w = 0; w < RANKS * RANKS; w++) {
            f.way[w].link.rate_bps = cases[i].rate_bps;
            f.way[w].link.delay_s = cases[i].delay_s;
        }
        for (int r = 0; r < RANKS; r++)
            f.machine[r].send_bytes = f.machine[r].receive_bytes = 1e12;
        doctor_advise(&f, append, all);
        snprintf(expected, sizeof expected,
                 "which method suits these links: telegrad advise --model NAME --workers 3 --link "
                 "%s\n",
                 cases[i].link);
        assert_string_equal(all, expected);
        assert_int_equal(tg_link_parse(cases[i].link, &link), TG_OK);
        doctor_findings_free(&f);
    }
}

static void findings_travel(void **state)
{
    (void)state;
    struct doctor_findings from, to;
    healthy(&from);
    healthy(&to);
    for (int p = 0; p < RANKS; p++)
        from.way[RANKS + p] = (struct doctor_way){
            .link = {.delay_s = p, .jitter_s = 2, .ahead_s = -3, .rate_bps = 4e9},
            .relayed = p == 2,
            .local = p == 0,
            .sent = 7,
            .resent = 5};
    strcpy(from.machine[1].host, "other\n\033[2J");
    json_t *json = doctor_findings_of(&from, 1);
    char *text = json_dumps(json, 0);
    assert_int_equal(doctor_findings_take(&to, 1, text), TG_OK);
    assert_string_equal(to.machine[1].host, "other??[2J"); /* nothing that terminals obey */
    assert_string_equal(to.machine[1].version, "1.2.3");
    for (int p = 0; p < RANKS; p += 2) {
        const struct doctor_way *w = &to.way[RANKS + p];
        assert_true(w->link.delay_s == p && w->link.jitter_s == 2 && w->link.ahead_s == -3);
        assert_true(w->link.rate_bps == 4e9 && w->sent == 7 && w->resent == 5);
        assert_int_equal(w->relayed, p == 2);
        assert_int_equal(w->local, p == 0);
    }
    /* Anything else is refused. */
    static const char *const wrong[] = {"", "7", "{}", "[]", "{\"host\": 3}"};
    for (size_t i = 0; i < TG_COUNT(wrong); i++)
        assert_int_equal(doctor_findings_take(&to, 1, wrong[i]), TG_E_CORRUPT);
    json_t *links = json_object_get(json, "links");
    json_object_set_new(json_array_get(links, 0), "to", json_integer(RANKS));
    char *far = json_dumps(json, 0);
    assert_int_equal(doctor_findings_take(&to, 1, far), TG_E_CORRUPT);
    free(far);
    free(text);
    json_decref(json);
    doctor_findings_free(&from);
    doctor_findings_free(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_fits),
        cmocka_unit_test(a_link_to_paste),
        cmocka_unit_test(findings_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
