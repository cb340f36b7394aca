/* What the tensors of the models are whose parameters this server keeps: for each channel the text
 * that its first worker has told (tg__star_texts). Workers that offer parameters later must tell
 * the same, whoever else is connected, and also after a restart: the journal has it. */
#ifndef TG_SERVER_TENSORS_H
#define TG_SERVER_TENSORS_H

#include "server/server_impl.h"
#include "state/state.h"

typedef struct tg__tensors {
    struct tg__tensors *next;
    uint16_t channel;
    size_t len;
    char text[];
} tg__tensors;

/* The first tensor in which two texts differ. */
typedef struct tg__tensors_unlike {
    size_t number;     /* in the list, from 1 on; 0: beyond the longest text that is sent */
    char text[2][320]; /* what it is in each, "none" if there is no such tensor */
} tg__tensors_unlike;

/* Compare two texts. Returns true if they differ. */
bool tg__tensors_differ(tg__settings a, tg__settings b, tg__tensors_unlike *u);
/* The text of a channel; empty: none is known. */
tg__settings tg__tensors_of(const tg_server *s, uint16_t channel);
/* A message, in `payload` (len), has begun g: if it offers parameters, compare what it tells of
 * their tensors, and keep it with g if that is new.
 * Errors  TG_E_MISMATCH (names the tensor), TG_E_CORRUPT (it tells nothing, or has too many
 *         models), TG_E_NOMEM */
TG_NODISCARD tg_status tg__tensors_check(const tg_server *s, tg__gathering *g,
                                         const uint8_t *payload, size_t len);
/* The server has taken the parameters of g: from now on they are of what g has told.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__tensors_keep(tg_server *s, const tg__gathering *g);
/* Write all to a snapshot, and read those of a channel.
 * Errors  TG_E_CORRUPT, TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__tensors_put(const tg_server *s, tg__ckpt_writer *w);
TG_NODISCARD tg_status tg__tensors_get(tg_server *s, tg__ckpt_reader *c, uint16_t channel);
void tg__tensors_forget(tg_server *s);

#endif
