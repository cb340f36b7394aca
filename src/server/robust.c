#include "server/robust.h"
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"mean", "median", "trimmed", "krum", "clipped"};

/* ---- the rule -------------------------------------------------------------------------------- */

static enum tg__robust_kind kind_of(const tg_spec *spec)
{
    const char *word = tg_spec_word(spec, "combine");
    size_t i = 0;
    while (strcmp(names[i], word) != 0)
        i++;
    return (enum tg__robust_kind)i;
}

tg_status tg__robust_read(const tg_spec *spec, tg__robust_rule *rule)
{
    const enum tg__robust_kind kind = kind_of(spec);
    const bool counts = kind == TG__ROBUST_TRIMMED || kind == TG__ROBUST_KRUM;
    if (tg_spec_has(spec, "f") != counts)
        return tg_fail(TG_E_SPEC,
                       counts ? "server mode \"%s\": combine=%s requires f, the number of ranks "
                                "that may be wrong"
                              : "server mode \"%s\": combine=%s has no f: allowed: with "
                                "combine=trimmed or krum",
                       tg_spec_text(spec), names[kind]);
    if (tg_spec_has(spec, "tau") && kind != TG__ROBUST_CLIPPED)
        return tg_fail(TG_E_SPEC,
                       "server mode \"%s\": combine=%s has no tau: allowed: with combine=clipped",
                       tg_spec_text(spec), names[kind]);
    *rule = (tg__robust_rule){.kind = kind};
    if (counts)
        rule->f = tg_spec_int(spec, "f");
    if (tg_spec_has(spec, "tau"))
        rule->tau = tg_spec_real(spec, "tau");
    if (kind == TG__ROBUST_TRIMMED && rule->f == 0) /* then it is the mean, bit for bit */
        rule->kind = TG__ROBUST_NONE;
    return TG_OK;
}

tg_status tg__robust_takes(const tg__robust_rule *rule, uint8_t codec)
{
    const tg__codec_ops *ops = tg__codec_by_id(codec);
    if ((rule->kind != TG__ROBUST_MEDIAN && rule->kind != TG__ROBUST_TRIMMED) || ops == NULL ||
        (ops->properties & TG__TO_ZERO) == 0)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED,
                   "combine=%s with frames of codec %s, in which most elements are 0: the %s of an "
                   "element would be 0 as well: allowed: codecs that keep all elements (f32, fp16, "
                   "bf16, int8, sign, 1bit), or combine=mean, krum or clipped",
                   names[rule->kind], ops->entry.name,
                   rule->kind == TG__ROBUST_MEDIAN ? "median" : "trimmed mean");
}

static tg_status check_ranks(const tg__robust_rule *rule, int ranks)
{
    const int64_t most = rule->kind == TG__ROBUST_KRUM ? (ranks - 3) / 2 : (ranks - 1) / 2;
    if (rule->kind == TG__ROBUST_KRUM && ranks < 3)
        return tg_fail(TG_E_SPEC, "server mode: combine=krum with %d ranks: allowed: 3 or more",
                       ranks);
    if (rule->f > most)
        return tg_fail(
            TG_E_SPEC, "server mode: combine=%s,f=%lld with %d ranks: allowed: f=0..%lld (%s)",
            names[rule->kind], (long long)rule->f, ranks, (long long)most,
            rule->kind == TG__ROBUST_KRUM ? "2 f + 3 ranks or more" : "2 f + 1 ranks or more");
    return TG_OK;
}

tg_status tg__robust_init(tg__robust *r, const tg__robust_rule *rule, int ranks)
{
    const size_t P = (size_t)ranks, pairs = rule->kind == TG__ROBUST_KRUM ? P * P : P;
    *r = (tg__robust){.rule = *rule};
    if (rule->kind == TG__ROBUST_NONE)
        return TG_OK;
    TG_TRY(check_ranks(rule, ranks));
    if (rule->kind == TG__ROBUST_MEDIAN || rule->kind == TG__ROBUST_TRIMMED)
        TG_TRY(tg__owned_alloc(&r->owned, P * TG__ROBUST_BLOCK, sizeof *r->lines, &r->lines));
    TG_TRY(tg__owned_alloc(&r->owned, P, sizeof *r->row, &r->row));
    TG_TRY(tg__owned_alloc(&r->owned, pairs, sizeof *r->distance, &r->distance));
    TG_TRY(tg__owned_alloc(&r->owned, P, sizeof *r->near, &r->near));
    return tg__owned_alloc(&r->owned, P, sizeof *r->told, &r->told);
}

int tg__robust_least(const tg__robust_rule *rule)
{
    return rule->kind == TG__ROBUST_TRIMMED ? 2 * (int)rule->f + 1
           : rule->kind == TG__ROBUST_KRUM  ? 2 * (int)rule->f + 3
                                            : 1;
}

void tg__robust_fini(tg__robust *r)
{
    tg__owned_free(&r->owned);
    *r = (tg__robust){0};
}

/* ---- last results ---------------------------------------------------------------------------- */

static tg__kept_key key_of(const tg__robust_last *l)
{
    return (tg__kept_key){l->channel, l->bucket, TG__KEPT_CENTER, l->round};
}

tg_status tg__robust_last_of(tg__robust *r, const tg__envelope *id, uint64_t begin, size_t n,
                             float **last_p)
{
    tg__robust_last *l = r->last;
    if (r->rule.kind != TG__ROBUST_CLIPPED) {
        *last_p = NULL;
        return TG_OK;
    }
    while (l != NULL && (l->channel != id->channel || l->bucket != id->bucket ||
                         l->round != id->round || l->begin != begin || l->n != n))
        l = l->next;
    if (l == NULL) {
        float *v;
        TG_TRY(tg__owned_alloc(&r->owned, TG__MAX(n, (size_t)1), sizeof *v, &v));
        TG_TRY(tg__owned_alloc(&r->owned, 1, sizeof *l, &l));
        *l = (tg__robust_last){id->channel, id->bucket, id->round, begin, n, v, r->last};
        r->last = l;
        if (r->kept != NULL)
            (void)tg__kept_take(r->kept, key_of(l), begin, n, v);
    }
    *last_p = l->v;
    return TG_OK;
}

tg_status tg__robust_keep(const tg__robust *r, tg__kept_writer *w)
{
    for (const tg__robust_last *l = r->last; l != NULL; l = l->next)
        TG_TRY(tg__kept_put(w, &(tg__piece){key_of(l), l->begin, l->n, 1, 0, NULL, l->v}));
    return TG_OK;
}

bool tg__robust_any(const tg__robust *r, uint16_t channel)
{
    const tg__robust_last *l = r->last;
    while (l != NULL && l->channel != channel)
        l = l->next;
    return l != NULL;
}

/* ---- combining ------------------------------------------------------------------------------- */

/* Decode the frames. Returns the number of rows: ranks that are not left out. */
static size_t decode_rows(tg__robust *r, const tg__robust_frame *in, int ranks, size_t n)
{
    size_t m = 0;
    for (int p = 0; p < ranks; p++) {
        float *row = r->rows + m * n;
        if (!in[p].flagged && tg__frame_decode_finite(in[p].frame, in[p].len, row, NULL)) {
            r->row[m++] = row;
            continue;
        }
        if (!r->told[in[p].rank])
            tg_log(TG_LOG_WARN,
                   "server: a gradient of rank %d is not finite: combine=%s leaves it out",
                   in[p].rank, names[r->rule.kind]);
        r->told[in[p].rank] = true;
    }
    return m;
}

static bool form(const tg__robust *r, int ranks, size_t m, size_t n, const float *last, float *dst)
{
    const bool counts = r->rule.kind == TG__ROBUST_TRIMMED || r->rule.kind == TG__ROBUST_KRUM;
    const int64_t most = counts ? r->rule.f : (ranks - 1) / 2, wrong = most - (ranks - (int64_t)m);
    if (wrong < 0)
        return false;
    if (r->rule.kind == TG__ROBUST_KRUM)
        tg__robust_krum(r, m, wrong, n, dst);
    else if (r->rule.kind == TG__ROBUST_CLIPPED)
        tg__robust_clipped(r, m, n, last, dst);
    else
        tg__robust_sorted(r, m, wrong, n, dst);
    return tg__kernel()->all_finite(dst, n);
}

tg_status tg__robust_combine(tg__robust *r, const tg__robust_frame *in, int ranks, size_t n,
                             float *last, float *dst, bool *formed)
{
    TG_TRY(tg__owned_room(&r->owned, &r->rows, (size_t)ranks * n, sizeof *r->rows));
    *formed = form(r, ranks, decode_rows(r, in, ranks, n), n, last, dst);
    if (!*formed)
        memset(dst, 0, n * sizeof *dst);
    else if (last != NULL)
        memcpy(last, dst, n * sizeof *dst);
    return TG_OK;
}
