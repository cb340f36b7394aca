/* Rounds with a deadline: measures the time that this rank has spent in the steps of a round. */
#include "session/session_impl.h"
#include "telegrad/clock.h"

static bool has_deadline(const tg_session *s)
{
    return s->strategy->deadline_ns > 0;
}

void tg__session_round_goes_on(tg_session *s)
{
    s->counts_from_ns = tg_now_ns(s->transport->clock);
    s->late = has_deadline(s) && s->round_ns > s->strategy->deadline_ns;
}

void tg__session_round_step(tg_session *s)
{
    if (!has_deadline(s))
        return;
    s->round_ns += tg_now_ns(s->transport->clock) - s->counts_from_ns;
    if (s->t % s->strategy->round_steps == 0)
        s->round_ns = 0;
    tg__session_round_goes_on(s);
}

tg_status tg__session_put_round(const tg_session *s, tg__ckpt_writer *w)
{
    return has_deadline(s) ? tg__ckpt_put(w, "round", &s->round_ns, sizeof s->round_ns) : TG_OK;
}

tg_status tg__session_get_round(tg_session *s, tg__ckpt_reader *r)
{
    return has_deadline(s) ? tg__ckpt_read(r, "round", &s->round_ns, sizeof s->round_ns) : TG_OK;
}
