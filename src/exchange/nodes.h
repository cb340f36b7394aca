/* Which ranks share a node: a machine, or any group of ranks with fast links among them. */
#ifndef TG_NODES_H
#define TG_NODES_H

#include <stdio.h>

#include "exchange/pump.h"

/* Nodes are numbered in the order of their lowest ranks, which are their leaders. Immutable. */
typedef struct tg__nodes {
    int size;    /* ranks */
    int count;   /* nodes */
    int node;    /* of this rank */
    int index;   /* of this rank in its node; 0: the leader */
    int members; /* ranks of its node */
    bool equal;  /* all nodes have as many ranks */
    int *of;     /* (size) each rank's node */
    int *leader; /* (count) ranks */
    int *member; /* (members) ranks, ascending */
    bool *near;  /* (size) true for ranks of the same node */
} tg__nodes;

/* Create the table. If `of` is NULL, or every rank has a node of its own, there is one level, and
 * *nodes_p is NULL.
 * call    the public function whose config->nodes it is, for messages
 * of      (size) a number >= 0 for each rank, equal for ranks of the same node
 * Errors  TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status tg__nodes_create(const char *call, const int *of, int rank, int size,
                                        tg__nodes **nodes_p);
void tg__nodes_destroy(tg__nodes *nodes); /* NULL is fine */

/* The number of ranks that a method works with: the number of nodes; without nodes, all ranks. */
static inline int tg__nodes_talkers(const tg__nodes *nodes, int size)
{
    return nodes == NULL ? size : nodes->count;
}

/* Print the nodes, here four ranks on two.
 * words  false (checkpoints): "nodes=0x2 1x2\n"; nothing if nodes is NULL
 *        true (handshakes): "nodes=ranks 0-1 on node 0, ranks 2-3 on node 1\n"; "nodes=none\n" */
void tg__nodes_print(const tg__nodes *nodes, bool words, FILE *f);

#endif
