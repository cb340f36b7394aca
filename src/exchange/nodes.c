#include "exchange/nodes.h"
#include "base/mem.h"

#include <stdlib.h>

/* Number the nodes in the order of their lowest ranks, and store those in first. Returns the number
 * of nodes. */
static int number(const int *of, int size, int *node, int *first)
{
    int count = 0;
    for (int r = 0; r < size; r++) {
        int q = 0;
        while (q < r && of[q] != of[r])
            q++;
        node[r] = q < r ? node[q] : count;
        if (q == r)
            first[count++] = r;
    }
    return count;
}

static tg_status check(const char *call, const int *of, int size)
{
    for (int r = 0; r < size; r++)
        if (of[r] < 0)
            return tg_fail(TG_E_ARG, "%s: config->nodes[%d]=%d: allowed: 0 and up", call, r, of[r]);
    return TG_OK;
}

static tg_status fill(tg__nodes *n, const int *of, int rank, int size)
{
    TG_TRY(tg_alloc((size_t)size, sizeof *n->of, &n->of));
    TG_TRY(tg_alloc((size_t)size, sizeof *n->leader, &n->leader));
    TG_TRY(tg_alloc((size_t)size, sizeof *n->member, &n->member));
    TG_TRY(tg_alloc((size_t)size, sizeof *n->near, &n->near));
    n->size = size;
    n->count = number(of, size, n->of, n->leader);
    n->node = n->of[rank];
    n->equal = size % n->count == 0;
    for (int r = 0; r < size; r++) {
        n->near[r] = n->of[r] == n->node;
        if (r == rank)
            n->index = n->members;
        if (n->near[r])
            n->member[n->members++] = r;
    }
    for (int q = 0; q < n->count && n->equal; q++) {
        int ranks = 0;
        for (int r = 0; r < size; r++)
            ranks += n->of[r] == q;
        n->equal = ranks == size / n->count;
    }
    return TG_OK;
}

tg_status tg__nodes_create(const char *call, const int *of, int rank, int size, tg__nodes **nodes_p)
{
    tg__nodes *n = NULL;
    if (of != NULL)
        TG_TRY(check(call, of, size));
    if (of != NULL)
        TG_TRY(tg_alloc(1, sizeof *n, &n));
    tg_status status = of == NULL ? TG_OK : fill(n, of, rank, size);
    if (status != TG_OK || (n != NULL && n->count == size)) {
        tg__nodes_destroy(n);
        n = NULL;
    }
    if (status == TG_OK)
        *nodes_p = n;
    return status;
}

void tg__nodes_destroy(tg__nodes *n)
{
    if (n == NULL)
        return;
    free(n->of);
    free(n->leader);
    free(n->member);
    free(n->near);
    free(n);
}

void tg__nodes_print(const tg__nodes *n, bool words, FILE *f)
{
    if (n == NULL && words)
        fputs("nodes=none\n", f);
    for (int r = 0, run; n != NULL && r < n->size; r += run) {
        for (run = 1; r + run < n->size && n->of[r + run] == n->of[r];)
            run++;
        fputs(r == 0 ? "nodes=" : words ? ", " : " ", f);
        if (words)
            fprintf(f, run == 1 ? "rank %d" : "ranks %d-%d", r, r + run - 1);
        fprintf(f, words ? " on node %d" : "%dx%d", n->of[r], run);
        fputs(r + run == n->size ? "\n" : "", f);
    }
}
