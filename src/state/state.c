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
    for (size_t i = 0; i < s->count; i++)
        free(s->slot[i].key);
    for (size_t i = 0; i < s->nblocks; i++)
        free(s->block[i]);
    free(s->slot);
    free(s->block);
    free(s);
}

/* Make room for `more` entries of `size` bytes beyond count. */
static tg_status grow(void *array_p, size_t *cap, size_t count, size_t more, size_t size)
{
    void *old;
    memcpy(&old, array_p, sizeof old);
    if (count + more <= *cap)
        return TG_OK;
    size_t want = TG__MAX(*cap * 2, count + more);
    void *grown = want <= SIZE_MAX / size ? realloc(old, want * size) : NULL;
    if (!grown)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu slots", want);
    memcpy(array_p, &grown, sizeof grown);
    *cap = want;
    return TG_OK;
}

/* "slot:ROLE:LENGTH:TENSOR:NAME|RULE". The length distinguishes (a:b, c) from (a, b:c). The part
 * before the bar must be unique. */
static tg_status make_key(tg__role role, tg__rescale rescale, const char *tensor, const char *name,
                          char **key_p)
{
    char *key = NULL;
    if (asprintf(&key, TG__SLOT_PREFIX "%s:%zu:%s:%s|%s", roles[role], strlen(tensor), tensor, name,
                 rescales[rescale]) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: slot %s of %s", name, tensor);
    *key_p = key;
    return TG_OK;
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
    char *key = NULL;
    TG_TRY(make_key(role, rescale, tensor, name, &key));
    for (size_t i = 0; i < s->count; i++) {
        if (same_slot(key, s->slot[i].key)) {
            free(key);
            return tg_fail(TG_E_STATE, "slot \"%.64s\" of tensor \"%.64s\" (%s) exists already",
                           name, tensor, roles[role]);
        }
    }
    s->slot[s->count++] = (tg__slot){.key = key, .len = len, .role = role, .rescale = rescale};
    return TG_OK;
}

static void drop_after(tg__state *s, size_t count)
{
    while (s->count > count)
        free(s->slot[--s->count].key);
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
    TG_TRY(grow(&s->slot, &s->cap, s->count, count, sizeof *s->slot));
    TG_TRY(grow(&s->block, &s->block_cap, s->nblocks, 1, sizeof *s->block));
    float *data = NULL;
    tg_status status = TG_OK;
    for (size_t i = 0; i < count && status == TG_OK; i++)
        status = add(s, role, rescale, tensor[i], name, n[i] * sizeof(float));
    if (status == TG_OK)
        status = tg_alloc(total, sizeof(float), &data);
    if (status != TG_OK) {
        drop_after(s, before);
        return status;
    }
    s->block[s->nblocks++] = data;
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
    TG_TRY(grow(&s->slot, &s->cap, s->count, 1, sizeof *s->slot));
    TG_TRY(grow(&s->block, &s->block_cap, s->nblocks, 1, sizeof *s->block));
    void *data;
    TG_TRY(tg_alloc(len, 1, &data));
    tg_status status = add(s, role, rescale, tensor, name, len);
    if (status != TG_OK) {
        free(data);
        return status;
    }
    s->block[s->nblocks++] = data;
    s->slot[s->count - 1].data = data;
    memcpy(data_p, &data, sizeof data);
    return TG_OK;
}
