/* Rules that combine the gradients of all ranks although some are wrong. Of P ranks:
 *
 *   median   element by element, the median; of an even number the mean of the middle two
 *   trimmed  element by element, the mean without the f largest and the f smallest; f < P / 2
 *   krum     the gradient with the least sum of squared distances to its P - f - 2 nearest ones;
 *            among equals that of the lowest rank; P >= 2 f + 3
 *   clipped  v + mean(c(g - v)), v the last result (at first 0), where c(d) is d, scaled down to
 *            the norm tau if it is longer. tau=auto: the median of the ranks' |g - v|, of an even
 *            number the lower one
 *
 * A rank that says its gradient is not finite, or sends NaN or infinity, is one of those that are
 * wrong. It is left out: of b such ranks, trimmed and krum continue with P - b ranks and f - b.
 * With more than f of them (median and clipped: (P - 1) / 2) there is no result.
 *
 * Bits     median and trimmed do not depend on the order of ranks (they sum in f64, in ascending
 *          order). clipped sums in rank order, in f32
 * Memory   P n floats for the largest gathering, once; clipped n more for each v
 * Cost     per element: median and trimmed P log(P)^2 / 4 minima and maxima, in blocks that stay in
 *          the cache; krum P^2 / 2 differences; clipped 2 P
 * Source   median, trimmed: Yin et al. 2018, arXiv:1803.01498, def. 1 and 2; krum: Blanchard et al.
 *          2017, arXiv:1703.02757, sec. 4; clipped: Karimireddy et al. 2021, arXiv:2012.10333,
 *          alg. 2 */
#ifndef TG_SERVER_ROBUST_H
#define TG_SERVER_ROBUST_H

#include "base/keys.h"
#include "base/owned.h"
#include "server/kept.h"
#include "wire/envelope.h"

enum tg__robust_kind {
    TG__ROBUST_NONE, /* the mean */
    TG__ROBUST_MEDIAN,
    TG__ROBUST_TRIMMED,
    TG__ROBUST_KRUM,
    TG__ROBUST_CLIPPED
};

#define TG__ROBUST_KEYS                                                                       \
    TG__CHOICE("combine", "mean", "mean|median|trimmed|krum|clipped",                         \
               "how gradients become one: their mean, or a rule that bears some wrong ones"), \
        TG__KEY(INT, "f", NULL, 0, 1e9, "of trimmed and krum: ranks that may be wrong"),      \
        TG__KEY(REAL, "tau", NULL, 0, 1e30,                                                   \
                "of clipped: longest step from the last result; auto (its default): the "     \
                "median of the ranks' steps",                                                 \
                .min_open = true, .choices = "auto")

typedef struct tg__robust_rule {
    enum tg__robust_kind kind; /* trimmed with f=0 is the mean */
    int64_t f;
    double tau; /* 0: auto */
} tg__robust_rule;

/* The last result of clipped for some elements. */
typedef struct tg__robust_last {
    uint16_t channel, bucket, round; /* of envelopes */
    uint64_t begin;
    size_t n;
    float *v; /* (n) */
    struct tg__robust_last *next;
} tg__robust_last;

/* A rule, with what it needs between calls. Zeroed at first. */
typedef struct tg__robust {
    tg__robust_rule rule;
    float *rows;             /* (P n) */
    float *lines;            /* a block of each row */
    const float **row;       /* (P) those that are not left out */
    double *distance, *near; /* (P P), (P) */
    bool *told;              /* (P) that the rank is left out */
    tg__robust_last *last;   /* the last results of clipped */
    tg__kept *kept;          /* from which new ones of these are taken; NULL: from nothing */
    tg__owned owned;
} tg__robust;

/* A rank's frame, which has been checked. */
typedef struct tg__robust_frame {
    const uint8_t *frame;
    size_t len;
    bool flagged; /* the rank says that it is not finite */
    int rank;
} tg__robust_frame;

/* Read the keys of a server's mode.
 * Errors  TG_E_SPEC */
TG_NODISCARD tg_status tg__robust_read(const tg_spec *spec, tg__robust_rule *rule);
/* Prepare r for so many ranks.
 * Errors  TG_E_SPEC (f is too large), TG_E_NOMEM */
TG_NODISCARD tg_status tg__robust_init(tg__robust *r, const tg__robust_rule *rule, int ranks);
void tg__robust_fini(tg__robust *r);
/* The fewest ranks that the rule can combine. */
int tg__robust_least(const tg__robust_rule *rule);
/* Check that the rule has a meaning for frames of the codec with this id.
 * Errors  TG_E_UNSUPPORTED */
TG_NODISCARD tg_status tg__robust_takes(const tg__robust_rule *rule, uint8_t codec);
/* Find the last result (n) for elements [begin, begin + n) of what the envelope is about: zeros at
 * first. Of rules other than clipped: NULL.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__robust_last_of(tg__robust *r, const tg__envelope *id, uint64_t begin,
                                          size_t n, float **last_p);
/* Put those of the writer's channel into a checkpoint.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__robust_keep(const tg__robust *r, tg__kept_writer *w);
bool tg__robust_any(const tg__robust *r, uint16_t channel);
/* Combine the frames (ranks) of n elements into dst (n).
 * last     as found; updated
 * *formed  [out] false: too many are not finite, or the result is not; dst is all 0
 * Errors   TG_E_NOMEM */
TG_NODISCARD tg_status tg__robust_combine(tg__robust *r, const tg__robust_frame *in, int ranks,
                                          size_t n, float *last, float *dst, bool *formed);

/* The rules, for m rows of n finite elements (robust_rules.c); `wrong` ranks may be among them. */
void tg__robust_sorted(const tg__robust *r, size_t m, int64_t wrong, size_t n, float *dst);
void tg__robust_krum(const tg__robust *r, size_t m, int64_t wrong, size_t n, float *dst);
void tg__robust_clipped(const tg__robust *r, size_t m, size_t n, const float *last, float *dst);

#define TG__ROBUST_BLOCK ((size_t)1024) /* elements of a block */

#endif
