/* Slots: blocks of zeroed memory with keys. */
#include "state/slots.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {"rank", "owner", "leader", "server", "replicated"};
/* In files, where they are part of names. In the past, slots of the rule MEAN restarted at 0, hence
 * "zero". */
static const char *const rescales[] = {"copy", "sum", "zero"};

tg_status tg__state_create(tg__state **s_p)
{
    return tg_alloc(1, sizeof(tg__state), s_p);
}

void tg__state_destroy(tg__state *s)
{
    if (!s)
        return;
    free(s->slot);
    tg__owned_free(&s->owned);
    free(s);
}

/* "slot:ROLE:LENGTH:TENSOR:NAME|RULE". The length distinguishes (a:b, c) from (a, b:c). The part
 * before the bar must be unique. */
static tg_status make_key(tg__state *s, tg__role role, tg__rescale rescale, const char *tensor,
                          const char *name, char **key_p)
{
    if (asprintf(key_p, TG__SLOT_PREFIX "%s:%zu:%s:%s|%s", roles[role], strlen(tensor), tensor,
                 name, rescales[rescale]) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: slot %s of %s", name, tensor);
    return tg__owned_add(&s->owned, *key_p, free);
}

static bool same_slot(const char *a, const char *b)
{
    size_t len = (size_t)(strrchr(a, '|') - a);
    return len == (size_t)(strrchr(b, '|') - b) && memcmp(a, b, len) == 0;
}

/* Add a slot without data; there is room for it. */
static tg_status add(tg__state *s, tg__role role, tg__rescale rescale, const char *tensor,
                     const char *name, size_t len)
{
    char *key;
    TG_TRY(make_key(s, role, rescale, tensor, name, &key));
    for (size_t i = 0; i < s->count; i++)
        if (same_slot(key, s->slot[i].key))
            return tg_fail(TG_E_STATE, "slot \"%.64s\" of tensor \"%.64s\" (%s) exists already",
                           name, tensor, roles[role]);
    s->slot[s->count++] = (tg__slot){.key = key, .len = len, .role = role, .rescale = rescale};
    return TG_OK;
}

tg_status tg__state_block(tg__state *s, tg__role role, tg__rescale rescale, const char *name,
                          const char *const *tensor, const size_t *n, size_t count, float **data_p)
{
    const size_t before = s->count;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (n[i] > SIZE_MAX / sizeof(float) - total)
            return tg_fail(TG_E_NOMEM, "slot \"%.64s\": %zu tensors are too large", name, count);
        total += n[i];
    }
    TG_TRY(tg__grow(&s->slot, &s->cap, s->count + count, sizeof *s->slot, "slots"));
    float *data = NULL;
    tg_status status = TG_OK;
    for (size_t i = 0; i < count && status == TG_OK; i++)
        status = add(s, role, rescale, tensor[i], name, n[i] * sizeof(float));
    if (status == TG_OK)
        status = tg__owned_alloc(&s->owned, total, sizeof(float), &data);
    if (status != TG_OK) {
        s->count = before;
        return status;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; at += n[i++])
        s->slot[before + i].data = data + at;
    *data_p = data;
    return TG_OK;
}

void tg__state_pieces(tg__state *s, const size_t *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        s->slot[s->count - count + i].at = at[i];
}

tg_status tg__state_bytes(tg__state *s, tg__role role, tg__rescale rescale, const char *tensor,
                          const char *name, size_t len, void *data_p)
{
    TG_TRY(tg__grow(&s->slot, &s->cap, s->count + 1, sizeof *s->slot, "slots"));
    void *data;
    TG_TRY(tg__owned_alloc(&s->owned, len, 1, &data));
    const tg_status status = add(s, role, rescale, tensor, name, len);
    if (status != TG_OK) {
        tg__owned_drop(&s->owned, data);
        return status;
    }
    s->slot[s->count - 1].data = data;
    memcpy(data_p, &data, sizeof data);
    return TG_OK;
}

size_t tg__state_count(const tg__state *s)
{
    return s->count;
}

tg__slot_view tg__state_view(const tg__state *s, size_t i)
{
    const tg__slot *slot = &s->slot[i];
    tg__slot_view view = {.role = roles[slot->role],
                          .rule = slot->rescale == TG__RESCALE_COPY ? "copy" : "sum",
                          .data = slot->data,
                          .len = slot->len,
                          .at = slot->at};
    const char *p =
        strchr(slot->key + sizeof TG__SLOT_PREFIX - 1, ':') + 1; /* LENGTH:TENSOR:NAME */
    char *tensor;
    view.tensor_len = (int)strtoul(p, &tensor, 10);
    view.tensor = tensor + 1;
    view.name = view.tensor + view.tensor_len + 1;
    view.name_len = (int)(strrchr(view.name, '|') - view.name);
    return view;
}

void tg__state_scale(tg__state *s, double factor)
{
    for (size_t i = 0; i < s->count; i++) {
        const tg__slot *slot = &s->slot[i];
        if (slot->rescale != TG__RESCALE_SUM && slot->role != TG__ROLE_OWNER)
            continue;
        float *x = slot->data;
        for (size_t k = 0; k < slot->len / sizeof *x; k++)
            x[k] = (float)(x[k] * factor);
    }
}
