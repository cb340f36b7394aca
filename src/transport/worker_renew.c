/* A worker whose connection with a server breaks: what was not answered is posted again on the next
 * connection, in the same order. */
#include "telegrad/clock.h"
#include "transport/worker_impl.h"

#define LOOK_NS INT64_C(20000000)

static tg__served *served_of(tg__worker *w, const tg__worker_op *o)
{
    return &w->served[o->peer - w->base.size];
}

static void forget(tg__worker *w, tg__worker_op *o)
{
    tg__served *s = served_of(w, o);
    tg__worker_op **link = &s->first;
    while (*link != o)
        link = &(*link)->next;
    *link = o->next;
    if (o->next == NULL)
        s->end = link;
    tg__worker_give(w, o);
}

/* Post it unless the server is lost, or is found to be. */
static tg_status post_now(tg__worker *w, tg__worker_op *o)
{
    tg__served *s = served_of(w, o);
    o->waits = s->lost;
    if (s->lost)
        return TG_OK;
    const tg_status status = tg__worker_post(w, o);
    s->lost = status == TG_E_PEER;
    o->waits = s->lost && !o->stamp_open;
    return s->lost ? TG_OK : status;
}

tg_status tg__worker_post_kept(tg__worker *w, tg__worker_op *o)
{
    tg__served *s = served_of(w, o);
    o->next = NULL;
    *s->end = o;
    s->end = &o->next;
    return post_now(w, o);
}

/* Test the open parts, and note a broken connection. */
static tg_status look(tg__worker *w, tg__worker_op *o)
{
    tg_status status = TG_OK;
    while (o->stamp_open || o->payload_open) { /* an error may be that of the first of two */
        status = tg__worker_test(w, o);
        if (status == TG_OK)
            return TG_OK;
        if (status != TG_E_PEER)
            return status;
        served_of(w, o)->lost = true;
        o->waits = true;
    }
    return TG_OK;
}

/* The answer to the oldest message of a tag has come. */
static void note_answer(tg__worker *w, tg__worker_op *answer)
{
    tg__worker_op *o = served_of(w, answer)->first;
    if (answer->answered)
        return;
    answer->answered = true;
    while (o != NULL && (!o->sends || o->answered || tg__answer_tag(o->tag) != answer->tag))
        o = o->next;
    if (o == NULL)
        return;
    o->answered = true;
    if (o->released)
        forget(w, o);
}

tg_status tg__worker_test_kept(tg__worker *w, tg__worker_op *o, bool *done_p, size_t *len_p)
{
    TG_TRY(look(w, o));
    if (o->stamp_open || o->payload_open || (o->waits && !o->answered))
        return TG_OK;
    *done_p = true;
    *len_p = o->sends ? o->room : o->len;
    if (!o->sends)
        note_answer(w, o);
    if (o->answered)
        forget(w, o);
    else
        o->released = true;
    return TG_OK;
}

/* All open parts are over now: mark the operations to post again. */
static tg_status detach(tg__worker *w, const tg__served *s)
{
    for (tg__worker_op *o = s->first; o != NULL; o = o->next) {
        TG_TRY(look(w, o));
        if (!o->sends && !o->waits)
            note_answer(w, o);
    }
    for (tg__worker_op *o = s->first; o != NULL; o = o->next)
        o->waits |= o->sends && !o->answered; /* what has gone out need not have been taken */
    return TG_OK;
}

static tg_status post_again(tg__worker *w, tg__served *s)
{
    for (tg__worker_op *o = s->first; o != NULL && !s->lost; o = o->next)
        if (o->waits && !o->answered)
            TG_TRY(post_now(w, o));
    return TG_OK;
}

tg_status tg__worker_renew(tg__worker *w, int64_t *until_p)
{
    for (int q = 0; q < (int)w->base.servers; q++) {
        tg__served *s = &w->served[q];
        bool back = false;
        if (!s->lost)
            continue;
        TG_TRY(detach(w, s));
        TG_TRY(w->inner->ops->renew(w->inner, w->base.size + q, &back));
        s->lost = !back;
        if (back)
            TG_TRY(post_again(w, s));
        const int64_t soon = tg_now_ns(w->base.clock) + LOOK_NS;
        *until_p = s->lost && soon < *until_p ? soon : *until_p;
    }
    return TG_OK;
}
