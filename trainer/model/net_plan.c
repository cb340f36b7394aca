/* Plans which buffer holds which gradient, by walking the backward pass once without computing or
 * allocating. */
#include "trainer/model/model_net_impl.h"
#include "telegrad/tools.h"
#include <stdlib.h>

/* Take a buffer of n floats for one reader: the smallest free one that is large enough, or a new
 * one. */
static size_t acquire(net *n, size_t count)
{
    size_t best = n->nbuffers;
    for (size_t i = 0; i < n->nbuffers; i++) {
        const net_buffer *b = &n->buffers[i];
        if (b->readers == 0 && !b->borrowed && b->n >= count &&
            (best == n->nbuffers || b->n < n->buffers[best].n))
            best = i;
    }
    if (best == n->nbuffers)
        n->buffers[n->nbuffers++].n = count;
    n->buffers[best].readers = 1;
    return best;
}

/* Collect the gradient of a node's output in one buffer. The node may overwrite it if it is the
 * only reader. */
static tg_status collect(net *n, net_node *node, size_t *id_p)
{
    net_array *a = &n->arrays[node->out_array];
    if (a->nsources == 0)
        return tg_fail(TG_E_ARG, "layer %zu: its output is not used",
                       (size_t)(node - n->nodes) + 1);
    size_t to = 0;
    while (to + 1 < a->nsources && n->buffers[a->source[to]].readers > 1)
        to++;
    size_t id = a->source[to];
    if (a->nsources > 1 && n->buffers[id].readers > 1) { /* others read all of them, too */
        id = acquire(n, a->n);
        to = a->nsources;
    }
    for (size_t s = 0; s < a->nsources; s++) {
        if (s == to)
            continue;
        node->sum_buffer[node->nsum++] = a->source[s];
        n->buffers[a->source[s]].readers--;
    }
    node->sum_anew = to == a->nsources;
    node->dy_buffer = id;
    *id_p = id;
    return TG_OK;
}

static tg_status add_source(net *n, net_node *node, size_t input, size_t id)
{
    net_array *a = &n->arrays[node->in_array[input]];
    if (a->nsources == NET_SOURCES)
        return tg_fail(TG_E_ARG, "a layer's output is used by more than %d others", NET_SOURCES);
    a->source[a->nsources++] = id;
    node->dx_buffer[input] = id;
    return TG_OK;
}

/* Assign buffers to the gradients of the node's inputs. dy: the buffer of its output's gradient */
static tg_status distribute(net *n, net_node *node, size_t dy)
{
    const net_gradient kind = node->ops->gradient;
    size_t shared = kind == NET_SAME ? dy : n->nbuffers;
    bool first = true;
    for (size_t j = 0; j < node->nin; j++) {
        if (node->in_array[j] == 0)
            continue;
        size_t id;
        const bool in_place =
            kind == NET_APART && j + 1 == node->nin && n->buffers[dy].readers == 1;
        if (in_place) {
            n->buffers[dy].readers++;
            id = dy;
        } else if (kind == NET_OWN || kind == NET_APART) {
            id = acquire(n, n->arrays[node->in_array[j]].n);
        } else {
            if (kind == NET_SHARED && first) {
                if (n->buffers[dy].readers == 1) {
                    shared = dy;
                    n->buffers[dy].readers++;
                } else {
                    shared = acquire(n, n->arrays[node->in_array[j]].n);
                }
            } else {
                n->buffers[shared].readers++;
            }
            id = shared;
        }
        first = false;
        TG_TRY(add_source(n, node, j, id));
    }
    n->buffers[dy].readers--;
    return TG_OK;
}

/* Find the first and the last node that uses each tensor. */
static tg_status plan_tensors(net *n)
{
    bool *seen;
    TG_TRY(tg_alloc(2 * n->base.ntensors, sizeof *seen, &seen));
    bool *behind = seen + n->base.ntensors;
    for (size_t i = 0; i < n->nnodes; i++) {
        net_node *begin = &n->nodes[i], *end = &n->nodes[n->nnodes - 1 - i];
        for (size_t t = 0; t < begin->ntensors; t++) {
            begin->begins[t] = !seen[begin->tensors[t]];
            seen[begin->tensors[t]] = true;
        }
        for (size_t t = 0; t < end->ntensors; t++) {
            end->ends[t] = !behind[end->tensors[t]];
            behind[end->tensors[t]] = true;
        }
    }
    free(seen);
    return TG_OK;
}

tg_status net_plan(net *n)
{
    net_array *last = &n->arrays[n->logits.array];
    size_t id = 0;
    if (n->nodes[n->logits.array - 1].ops->reads_y) {
        id = acquire(n, last->n);
    } else { /* The gradient of the loss replaces the logits. */
        n->buffers[0] = (net_buffer){.n = last->n, .readers = 1, .borrowed = true};
        n->nbuffers = 1;
    }
    last->source[last->nsources++] = id;
    for (size_t i = n->nnodes; i-- > 0;) {
        size_t dy = 0;
        TG_TRY(collect(n, &n->nodes[i], &dy));
        TG_TRY(distribute(n, &n->nodes[i], dy));
    }
    return plan_tensors(n);
}
