/* exchange=auto: predict how long a method's exchanges take over the measured network, and choose
 * one. */
#ifndef TG_AUTO_EXCHANGE_H
#define TG_AUTO_EXCHANGE_H

#include "exchange/predict.h"
#include "method/method.h"

/* A choice examines at most this many elements, so that neither its time (some tenths of a second)
 * nor its memory grows with the bucket. */
#define TG__AUTO_ELEMENTS ((size_t)1 << 20)

/* Choose an exchange, and log the choice.
 * text      a method with exchange=auto
 * setup     of a bucket, among setup->size ranks; its rank, lanes, state, pool, exchange and nodes
 *           are ignored
 * eta       learning rate; 0: unknown
 * choice_p  [out] the choice of tg__exchange_pick, where the usual one is that of a spec which
 *           names none
 * Candidates are the exchanges that the method allows and that may be chosen automatically
 * (exchange.h). For each, the program foresees the rounds, or they are rehearsed on a random
 * gradient of the examined part of the bucket; then the time of all rounds is predicted.
 * Errors    those of parsing, and of creating and rehearsing the method with the usual exchange.
 *           Other exchanges that the method refuses are not candidates */
TG_NODISCARD tg_status tg__auto_exchange(const char *text, const tg__method_setup *setup,
                                         double eta, const tg__network *net,
                                         const tg__exchange_ops **choice_p);

/* The number of an exchange in tg__exchanges(), for sending or storing; TG__NO_CHOICE for NULL. */
#define TG__NO_CHOICE 255
uint8_t tg__exchange_number(const tg__exchange_ops *x);
/* The exchange with this number. NULL: TG__NO_CHOICE, or one that may not be chosen. */
const tg__exchange_ops *tg__exchange_numbered(uint8_t number);

#endif
