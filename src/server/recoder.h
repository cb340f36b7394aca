/* Coded answers, for ranks that ask for them (exchange=twoway): p = mean + r; send C(p);
 * r = p - D(C(p)). One recoder for each part of each bucket, which lives as long as the server. */
#ifndef TG_SERVER_RECODER_H
#define TG_SERVER_RECODER_H

#include "server/coder.h"

typedef struct tg__recoder tg__recoder;
struct tg__gathering;

/* Find the recoder of g, whose first message has begun it, or create it; set g->recoder. The flags
 * of g->star say whether its residual begins at 0, or goes back to that before the last answer.
 * coding  (g->star.coding) behind the frame
 * Errors  TG_E_CORRUPT, TG_E_MISMATCH, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__recoder_open(tg__recoder **list, struct tg__gathering *g,
                                        const uint8_t *coding);
/* If r is new: take over what a checkpoint holds of it. Call it when it has been opened for g. */
void tg__recoder_restore(tg__recoder *r, tg__kept *kept, const struct tg__gathering *g);
/* Check that another rank's coding is the same.
 * Errors  TG_E_MISMATCH */
TG_NODISCARD tg_status tg__recoder_compare(const tg__recoder *r, const uint8_t *coding, size_t len);
/* The largest frame, in bytes. */
size_t tg__recoder_room(const tg__recoder *r);
/* Code the values of g. If its flags have NONFINITE, or the vector with the residual is not finite,
 * which then sets that flag, the frame is zeros and the residual stays.
 * frame   [out] tg__recoder_room bytes
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__recoder_code(tg__recoder *r, struct tg__gathering *g, uint8_t *frame,
                                        size_t room, size_t *len_p);
/* g ends. r NULL: nothing */
void tg__recoder_leave(tg__recoder *r, const struct tg__gathering *g);
/* Put those of the writer's channel into a checkpoint; none is busy.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__recoders_keep(const tg__recoder *list, tg__kept_writer *w);
bool tg__recoders_any(const tg__recoder *list, uint16_t channel);
void tg__recoders_free(tg__recoder *list);

#endif
