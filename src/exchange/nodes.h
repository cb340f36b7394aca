/* Which ranks are of one node: a machine, or whatever is near to itself and far from the rest. */
#ifndef TG_NODES_H
#define TG_NODES_H

#include <stdio.h>

#include "exchange/pump.h"

/* Nodes are numbered by their lowest rank, which leads them. Constant once made. */
typedef struct tg__nodes {
    int size;    /* ranks */
    int count;   /* nodes */
    int node;    /* of this rank */
    int index;   /* of this rank in its node; 0: it leads */
    int members; /* ranks of its node */
    bool equal;  /* all nodes have as many ranks */
    int *of;     /* (size) each rank's node */
    int *leader; /* (count) ranks */
    int *member; /* (members) ranks, ascending */
    bool *near;  /* (size) of its node */
} tg__nodes;

/* of (size): any number >= 0 for each rank, the same for those of one node. NULL, or a node for
 * each rank: *nodes_p is NULL, there is one level. Errors TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status tg__nodes_create(const int *of, int rank, int size, tg__nodes **nodes_p);
void tg__nodes_destroy(tg__nodes *nodes); /* NULL is fine */

/* How many ranks a method has: nodes, or without them all. */
static inline int tg__nodes_talkers(const tg__nodes *nodes, int size)
{
    return nodes == NULL ? size : nodes->count;
}

/* For handshakes and checkpoints: "nodes=0x2 1x2\n", four ranks on two nodes; nothing if NULL. */
void tg__nodes_print(const tg__nodes *nodes, FILE *f);

#endif
