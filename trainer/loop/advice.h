/* Advice: which strategy and method to use for training a model over a network, and why. It
 * predicts step times of the strategies and methods worth comparing, applies the time model of
 * CD-SGD, and finds the points at which the answer changes. Predictions come from the simulation
 * (simulate.h). Accuracy is not considered. */
#ifndef TG_TRAIN_ADVICE_H
#define TG_TRAIN_ADVICE_H

#include "trainer/loop/train.h"

/* ---- the time model -------------------------------------------------------------------------- */

/* Seconds of a step. */
typedef struct advice_times {
    double tau;   /* computing */
    double phi;   /* a dense exchange */
    double psi;   /* an exchange of coded gradients */
    double delta; /* encoding and decoding */
    bool spare;   /* the codec has a core of its own */
} advice_times;

/* Step times by the model of CD-SGD:
 *     T_ssgd = tau + phi
 *     T_od   = max(tau, phi)
 *     T_bit  = tau + delta + psi
 *     T_cd   = ((k-1) c + max(tau, phi)) / k
 *              c = max(tau, delta + psi); without a spare core for the codec, max(tau, psi) + delta
 *              k = 0: no step is dense, T_cd = c
 * Source: Yu et al. 2021 (CD-SGD), arXiv:2106.10796, eqs. 2-9. Their last one, ((k-1)(delta+psi) +
 * phi)/k, is the case in which communication bounds both branches; at tau = phi both agree. */
double advice_ssgd(const advice_times *t);
double advice_od(const advice_times *t);
double advice_bit(const advice_times *t);
double advice_cd(const advice_times *t, unsigned k);

/* ---- advice ---------------------------------------------------------------------------------- */

/* A way pays if its step takes less than this fraction of the other one's. */
#define ADVICE_PAYS 0.9
/* The wire is hidden if a step takes at most this many times the best possible one. */
#define ADVICE_HIDDEN 1.1
/* Among ways within this factor of the fastest step, the one nearest to plain SGD is recommended;
 * among equally near ones, the one that sends least. */
#define ADVICE_NEAR 1.25
#define ADVICE_MOST_D 64 /* largest delay of dga that is considered */

typedef struct advice advice;

typedef struct advice_request {
    /* Its model, batch, accumulate, precision, context, optimizer, overlap, driver, bucket_bytes
     * and seed are used. Times come from job->times or tau_ns, or are measured, as for
     * train_sim_create. */
    const train_job *job;
    const char *data;    /* as for train_sim_create */
    int world;           /* 2 to TG_SIM_WORLD_MAX */
    bool coding_is_free; /* false: the cost of coding is measured */
} advice_request;

typedef enum advice_family {
    ADVICE_SSGD = 0,
    ADVICE_OD,
    ADVICE_CD,       /* number: k */
    ADVICE_DGA,      /* number: D */
    ADVICE_LOCAL,    /* number: H */
    ADVICE_STREAMING /* number: H, 2 or more; fragments and overlap at their defaults */
} advice_family;
#define ADVICE_FAMILIES 6

typedef struct advice_way {
    advice_family family;
    unsigned number;   /* k, D or H of the family, else 0. Listed ways have the smallest that hides
                      * the wire, or beyond which nothing changes */
    size_t method;     /* index of advice_methods */
    char strategy[32]; /* "cd:k=5" */
    const char *method_text;
    double step_s, bytes; /* per step: seconds, and bytes that a rank sends */
    double distance;      /* from plain SGD, by strategy, number and method; 0: plain SGD */
} advice_way;

/* The methods compared: the plain one, others that are as exact, and from ADVICE_CODED on those
 * that send less. */
#define ADVICE_CODED 2
extern const char *const advice_methods[];
extern const size_t advice_method_count;

/* Methods that accumulate SGD's momentum are left out if the model has a usual optimizer of its own
 * (model_usual_optimizer).
 * Errors  those of train_sim_create and of the simulations; TG_E_ARG (world) */
TG_NODISCARD tg_status advice_create(const advice_request *request, advice **a_p);
void advice_destroy(advice *a);     /* NULL is fine */
double advice_tau(const advice *a); /* seconds */
size_t advice_params(const advice *a);

/* tau, and phi, psi and delta of a method, without overlap.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status advice_take_times(const advice *a, size_t method, const tg_link *link,
                                         advice_times *t_p);

/* Predict a way over such links.
 * w       family, number and method are set; strategy, step_s, bytes and distance are filled in
 * Errors  TG_E_UNSUPPORTED, TG_E_SPEC (strategy and method do not go together), TG_E_NOMEM */
TG_NODISCARD tg_status advice_predict(const advice *a, const tg_link *link, advice_way *w);
/* True if this status of advice_predict means that strategy and method do not go together. */
bool advice_refused(tg_status status);

bool advice_as_far(const advice_way *a, const advice_way *b); /* equal distances */
/* Sort ways (count > 0) with known step_s, bytes and distance: the recommended one first, then by
 * step time. */
void advice_sort(advice_way *way, size_t count);

/* All ways whose strategy and method go together, in the order of advice_sort.
 * way  [out] room for ADVICE_FAMILIES * advice_method_count */
TG_NODISCARD tg_status advice_list(const advice *a, const tg_link *link, advice_way *way,
                                   size_t *count_p);

/* ---- parameter servers (advice_servers.c) ---------------------------------------------------- */

/* Workers, and servers beside them. */
typedef struct advice_network {
    tg_link link, server; /* of each worker; of each server */
    const train_job *job; /* its slow, tau_jitter and seed: stragglers */
} advice_network;

typedef struct advice_served {
    unsigned servers; /* 0: none; workers exchange gradients in step */
    size_t method;    /* index of advice_methods */
    bool twoway;      /* with exchange=twoway */
    const char *method_text;
    char mode[24]; /* of the servers (server.h) */
    double step_s; /* in which all workers make a step, on average */
    double bytes;  /* that a worker sends in a step */
} advice_served;

#define ADVICE_COUNTS 10 /* numbers of servers: 1, 2, 4, ... */
#define ADVICE_MODES 7

typedef struct advice_answer_served {
    advice_served without;              /* plain steps without servers: the best method */
    advice_served count[ADVICE_COUNTS]; /* (counts) in step: the best method of each number */
    size_t counts;
    const advice_served *best;        /* of count */
    advice_served mode[ADVICE_MODES]; /* (modes) *best, then async with growing staleness: with
                                       * this number, and the best method async */
    size_t modes;
    size_t taken; /* the mode with the least staleness that hides most of the waiting for
                   * stragglers; 0 (in step) if that brings less than a tenth */
    bool pays;    /* it takes less than ADVICE_PAYS of the time without servers */
} advice_answer_served;

/* Compare 1, 2, 4, ... and `most` servers with none.
 * most    1 to TG_SERVERS_MAX
 * Errors  TG_E_ARG, TG_E_NOMEM, those of the simulations */
TG_NODISCARD tg_status advice_serve(const advice *a, const advice_network *net, unsigned most,
                                    advice_answer_served *r);

/* ---- where the answer of a comparison changes (advice_crossings.c) --------------------------- */

#define ADVICE_POINTS 25 /* values examined */

/* The ranges in which something pays, in ascending order. A range narrower than the step between
 * two values examined, a factor of (high / low)^(1/24), may be missed. */
typedef struct advice_ranges {
    double low, high; /* bit/s or seconds: the first and the last value examined */
    struct advice_range {
        double from, to; /* within 1 %; from = low or to = high: it pays at that end, too */
    } range[ADVICE_POINTS / 2 + 1];
    size_t count; /* 0: it pays nowhere */
} advice_ranges;

typedef tg_status advice_pays_fn(void *arg, double at, bool *pays_p);
/* Examine the values from low to high, both > 0.
 * Errors  those of pays */
TG_NODISCARD tg_status advice_look(advice_pays_fn *pays, void *arg, double low, double high,
                                   advice_ranges *r_p);

/* Where the answer changes, around a link.
 * compression_p  [out] rates at which some coded method pays with ssgd, at the link's delay.
 *                Examined: a 10,000th to 10,000 times the link's rate, within 1 kbit/s to 1 Tbit/s
 * delay_p        [out] one-way delays at which od, or dga with ADVICE_MOST_D, pays against the
 *                fastest ssgd, at the link's rates. Examined: 1 us to 10 s
 * Errors         TG_E_NOMEM */
TG_NODISCARD tg_status advice_crossings(const advice *a, const tg_link *link,
                                        advice_ranges *compression_p, advice_ranges *delay_p);

/* The rate of the link's slower direction in bit/s; 0: both are unlimited. */
double advice_rate(const tg_link *link);

#endif
