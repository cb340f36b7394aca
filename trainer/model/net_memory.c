/* The memory of a network, allocated once its total size is known. */
#include "trainer/model/memory.h"
#include "trainer/model/model_net_impl.h"
#include "telegrad/tools.h"

static double floats(size_t count)
{
    return (double)count * sizeof(float);
}

/* Outputs, and the nodes' own memory, have been counted before. */
static double bytes_of(const net *n, size_t slots)
{
    double bytes = n->bytes + nn_bytes(n->nn) + 2 * floats(n->base.floats) +
                   floats(n->base.nstate) + (double)slots * floats(n->base.params_total);
    for (size_t i = 0; i < n->nbuffers; i++)
        bytes += n->buffers[i].borrowed ? 0 : floats(n->buffers[i].n);
    return bytes;
}

static tg_status make(net *n)
{
    TG_TRY(tg_alloc(n->base.floats, sizeof(float), &n->base.params));
    TG_TRY(tg_alloc(n->base.floats, sizeof(float), &n->base.grads));
    TG_TRY(tg_alloc(n->base.nstate, sizeof(float), &n->base.state));
    for (size_t i = 1; i < n->narrays; i++)
        TG_TRY(tg_alloc(n->arrays[i].n, sizeof(float), &n->arrays[i].y));
    for (size_t i = 0; i < n->nbuffers; i++) {
        net_buffer *b = &n->buffers[i];
        if (b->borrowed)
            b->data = n->arrays[n->logits.array].y;
        else
            TG_TRY(tg_alloc(b->n, sizeof(float), &b->data));
    }
    return TG_OK;
}

static void bind(const net *n, net_node *node)
{
    for (size_t j = 0; j < node->nin; j++) {
        const bool inner = node->in_array[j] > 0; /* the network's input needs no gradient */
        node->x[j] = n->arrays[node->in_array[j]].y;
        node->dx[j] = inner ? n->buffers[node->dx_buffer[j]].data : NULL;
    }
    for (size_t s = 0; s < node->nsum; s++)
        node->sum[s] = n->buffers[node->sum_buffer[s]].data;
    node->y = n->arrays[node->out_array].y;
    node->dy = n->buffers[node->dy_buffer].data;
}

tg_status net_allocate(model *m, const model_room *room)
{
    net *n = (net *)m;
    TG_TRY(memory_check(bytes_of(n, room->slots), room->networks, room->bytes));
    TG_TRY(make(n));
    for (size_t i = 0; i < n->nnodes; i++)
        bind(n, &n->nodes[i]);
    model_draw(m, n->seed);
    return TG_OK;
}
