/* Loading a checkpoint of another number of ranks. Each rank takes over a range of the old ones
 * (state/takeover.h). It reads, one after another, the files that hold something for it; what all
 * ranks share comes from rank 0's file. */
#include "session/session_ckpt.h"
#include "base/mem.h"
#include "state/takeover.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct from {
    tg_session *s;
    tg__heir ranks, leaders; /* leaders.size 0: this rank has no method */
    int *node;               /* (ranks.old) the node that it led, -1: none; NULL: one level */
    char *identity;
    tg__takeover *slots;
    tg__counters c; /* rank 0's */
    bool lost;
    tg__blend *param; /* (ntensors) */
    float **value;    /* (ntensors) those that this rank's files have */
    tg__blend *inbox; /* (nbuckets * lanes) of pushes only */
    tg__blend *owed;  /* (nbuckets * lanes) */
    const char *dir;  /* NULL: in memory */
    bool whole;       /* rank 0's file has the global parameters, too */
    tg__owned owned;  /* memory */
} from;

/* ---- old and new ranks ----------------------------------------------------------------------- */

/* Parse "nodes=0x2 1x1": ranks 0 and 1 share a node, rank 2 has another. Empty: each rank has
 * its own. */
static tg_status read_nodes(from *f, const char *line, size_t len)
{
    char text[65536];
    const int size = f->ranks.old;
    int at = 0, count = 0, used = 0;
    f->leaders.old = size;
    if (len == 0)
        return TG_OK;
    TG_TRY(tg__owned_alloc(&f->owned, (size_t)size, sizeof *f->node, &f->node));
    snprintf(text, sizeof text, "%.*s", (int)TG__MIN(len, sizeof text - 1), line);
    for (const char *p = text + strlen(TG__LINE_NODES); *p != '\0' && at <= size; p += used) {
        int node = 0, run = 0;
        if (sscanf(p, "%dx%d%n", &node, &run, &used) != 2 || node < 0 || node > count || run < 1 ||
            run > size - at)
            return tg_fail(TG_E_CORRUPT,
                           "the checkpoint has nodes \"%.64s\", which do not fit its %d ranks",
                           text, size);
        for (int i = 0; i < run; i++)
            f->node[at++] = node == count && i == 0 ? node : -1;
        count += node == count;
        used += p[used] == ' ';
    }
    f->leaders.old = count;
    return at == size ? TG_OK
                      : tg_fail(TG_E_CORRUPT,
                                "the checkpoint has nodes \"%.64s\", which do not fit its %d ranks",
                                text, size);
}

static void place(from *f)
{
    const tg_session *s = f->s;
    f->ranks = (tg__heir){s->transport->rank, s->transport->size, s->from.ranks};
    f->leaders = f->ranks;
    if (s->nodes != NULL) {
        f->leaders.rank = s->nodes->node;
        f->leaders.size = s->nodes->index == 0 ? s->nodes->count : 0;
    }
}

/* The weight of an old rank's method memory in this rank's. */
static int leader_weight(const from *f, int rank)
{
    const int node = f->node == NULL ? rank : f->node[rank];
    return f->leaders.size == 0 || node < 0 ? 0 : tg__heir_weight(f->leaders, node);
}

/* ---- what is in flight ----------------------------------------------------------------------- */

static bool is_push(const tg_session *s, const lane_op *o)
{
    return tg__session_was_pushed(s, o);
}

/* Read rank 0's file: all ranks have the same, except for pushes and what is owed to a rank's
 * memory. */
static tg_status begin_inbox(from *f, tg__ckpt_reader *r)
{
    tg_session *s = f->s;
    for (uint64_t i = 0; i < f->c.in_flight; i++) {
        lane_op *o;
        TG_TRY(tg__session_get_inbox(s, r, &f->c, i, &o));
        const size_t n = s->bucket[o->bucket].n;
        if (is_push(s, o)) {
            o->op.flags = 0;
            memset(o->inbox, 0, n * sizeof *o->inbox);
        }
        if (s->lanes > 1 && o->owed == NULL)
            TG_TRY(tg__owned_alloc(&s->owned, n, sizeof *o->owed, &o->owed));
        if (o->owed != NULL)
            memset(o->owed, 0, n * sizeof *o->owed);
        o->owes = false;
    }
    return TG_OK;
}

static tg_status add_exchange(from *f, tg__ckpt_reader *r, int rank, uint64_t number)
{
    tg_session *s = f->s;
    char name[64];
    const void *bytes;
    tg__inbox_head head;
    tg__inbox_name(name, number, "head");
    TG_TRY(tg__ckpt_read(r, name, &head, sizeof head));
    if (head.bucket >= s->nbuckets || head.lane >= s->lanes ||
        !s->bucket[head.bucket].lane[head.lane].waiting)
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint section %s of rank %d: nothing is in flight of bucket %u, lane "
                       "%u on rank 0",
                       name, rank, head.bucket, head.lane);
    lane_op *o = &s->bucket[head.bucket].lane[head.lane];
    const size_t n = s->bucket[head.bucket].n, at = head.bucket * s->lanes + head.lane;
    const int weight = tg__heir_weight(f->ranks, rank), owed = leader_weight(f, rank);
    if (is_push(s, o) && weight > 0) {
        tg__inbox_name(name, number, "aggregate");
        TG_TRY(tg__ckpt_get(r, name, n * sizeof(float), &bytes, NULL));
        TG_TRY(tg__blend_add(&f->owned, &f->inbox[at], o->inbox, bytes, n, weight, f->ranks.old));
        o->op.flags |= (uint16_t)(head.flags & TG__FLAG_NONFINITE);
    }
    if (head.owes && owed > 0 && o->owed != NULL) {
        tg__inbox_name(name, number, "owed");
        TG_TRY(tg__ckpt_get(r, name, n * sizeof(float), &bytes, NULL));
        TG_TRY(tg__blend_add(&f->owned, &f->owed[at], o->owed, bytes, n, owed, f->leaders.old));
        o->owes = true;
    }
    return TG_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Parameters that are not global, and statistics; those that are global, if they are there. */
static tg_status add_params(from *f, tg__ckpt_reader *r, int rank)
{
    const tg_session *s = f->s;
    for (size_t i = 0; i < s->ntensors; i++) {
        const tensor *t = &s->tensor[i];
        const bool global = tg__session_is_global(s, t);
        const bool first = global || t->kind == TG_TENSOR_RANK0;
        const int weight = first ? rank == 0 : tg__heir_weight(f->ranks, rank);
        const void *bytes;
        char name[512];
        if (weight == 0 || (global && !f->whole))
            continue;
        snprintf(name, sizeof name, "param/%.480s", t->name);
        TG_TRY(tg__ckpt_get(r, name, t->n * sizeof(float), &bytes, NULL));
        if (f->value[i] == NULL)
            TG_TRY(tg__owned_alloc(&f->owned, t->n, sizeof(float), &f->value[i]));
        TG_TRY(tg__blend_add(&f->owned, &f->param[i], f->value[i], bytes, t->n, weight,
                             first ? 1 : f->ranks.old));
    }
    return TG_OK;
}

static tg_status check_file(const from *f, tg__ckpt_reader *r, int rank, tg__counters *c)
{
    TG_TRY(tg__ckpt_check(r, f->identity, TG__LINE_NODES));
    TG_TRY(tg__ckpt_read(r, "session", c, sizeof *c));
    if (c->world == f->ranks.old && c->rank == rank && c->t == f->s->from.step &&
        (rank == 0 || (c->in_flight == f->c.in_flight && c->order == f->c.order)))
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "the file of rank %d of %d in step %llu is one of rank %d of %d in step %llu",
                   rank, f->ranks.old, (unsigned long long)f->s->from.step, (int)c->rank,
                   (int)c->world, (unsigned long long)c->t);
}

static tg_status begin(from *f, tg__ckpt_reader *r)
{
    size_t len;
    const char *line = tg__ckpt_identity_line(r, TG__LINE_NODES, &len);
    TG_TRY(read_nodes(f, line, len));
    TG_TRY(tg__takeover_create(&f->owned, f->s->state, f->ranks, f->leaders, f->node, &f->slots));
    return begin_inbox(f, r);
}

static tg_status add_file(from *f, tg__ckpt_reader *r, int rank)
{
    tg__counters c;
    TG_TRY(check_file(f, r, rank, &c));
    if (rank == 0)
        f->c = c;
    if (rank == 0)
        TG_TRY(begin(f, r));
    if (rank == 0)
        TG_TRY(tg__session_get_states(f->s, r, f->ranks.rank == 0));
    if (tg__heir_first(f->ranks) == rank) {
        TG_TRY(tg__session_get_extra(f->s, r));
        TG_TRY(tg__session_get_round(f->s, r));
    }
    f->lost = f->lost || (c.lost != 0 && tg__heir_weight(f->ranks, rank) > 0);
    for (uint64_t i = 0; i < c.in_flight; i++)
        TG_TRY(add_exchange(f, r, rank, i));
    TG_TRY(add_params(f, r, rank));
    return tg__takeover_add(f->slots, r, rank);
}

/* Check that all files exist, including those that only other ranks read, before the long work. */
static tg_status check_files(const from *f, const char *dir)
{
    char path[PATH_MAX];
    for (int rank = 0; rank < f->ranks.old; rank++) {
        TG_TRY(tg__ckpt_dir_path(dir, f->s->from.step, rank, path, sizeof path));
        if (access(path, R_OK) != 0)
            return tg_fail(TG_E_IO,
                           "cannot open checkpoint %s: %s: %d rank%s over from %d, so each "
                           "must see the files of all of them",
                           path, strerror(errno), f->ranks.size,
                           f->ranks.size == 1 ? " takes" : "s take", f->ranks.old);
    }
    return TG_OK;
}

static tg_status open_old(const from *f, int rank, tg__ckpt_reader **r_p)
{
    char path[PATH_MAX];
    if (f->dir == NULL)
        return tg__session_open_image(f->s, rank, r_p);
    TG_TRY(tg__ckpt_dir_path(f->dir, f->s->from.step, rank, path, sizeof path));
    return tg__ckpt_open(path, NULL, r_p);
}

static tg_status read_files(from *f)
{
    tg__ckpt_reader *r;
    if (f->dir != NULL)
        TG_TRY(check_files(f, f->dir));
    for (int rank = 0; rank < f->ranks.old; rank++) {
        if (rank > 0 && !tg__takeover_needs(f->slots, rank))
            continue;
        TG_TRY(open_old(f, rank, &r));
        const tg_status status = add_file(f, r, rank);
        tg__ckpt_close(r);
        TG_TRY(status);
    }
    return tg__takeover_end(f->slots);
}

/* ---- the whole checkpoint -------------------------------------------------------------------- */

static tg_status take_over(from *f, const tg_weights *w)
{
    tg_session *s = f->s;
    const size_t lanes = s->nbuckets * s->lanes;
    place(f);
    f->identity = tg__session_identity(s);
    if (f->identity == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory for a checkpoint");
    TG_TRY(tg__owned_add(&f->owned, f->identity, free));
    TG_TRY(tg__owned_alloc(&f->owned, s->ntensors, sizeof *f->param, &f->param));
    TG_TRY(tg__owned_alloc(&f->owned, s->ntensors, sizeof *f->value, &f->value));
    TG_TRY(tg__owned_alloc(&f->owned, lanes, sizeof *f->inbox, &f->inbox));
    TG_TRY(tg__owned_alloc(&f->owned, lanes, sizeof *f->owed, &f->owed));
    TG_TRY(read_files(f));
    TG_TRY(w != NULL ? tg__session_read_weights(s, w) : TG_OK);
    for (size_t i = 0; i < s->ntensors; i++)
        if (f->value[i] != NULL)
            memcpy(s->tensor[i].param, f->value[i], s->tensor[i].n * sizeof(float));
    tg__session_take_counters(s, &f->c);
    s->lost = f->lost;
    return TG_OK;
}

tg_status tg__session_take_over(tg_session *s, const char *dir, const tg_weights *w)
{
    from f = {.s = s, .dir = dir, .whole = w == NULL};
    const tg_status status = take_over(&f, w);
    tg__owned_free(&f.owned);
    return status;
}
