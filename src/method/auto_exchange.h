/* exchange=auto: what a method's exchanges would take over the network as it is, and the choice. */
#ifndef TG_AUTO_EXCHANGE_H
#define TG_AUTO_EXCHANGE_H

#include "exchange/predict.h"
#include "method/method.h"

/* Elements of which a choice looks at most, so that neither its time (some tenths of a second) nor
 * its memory grow with the bucket. */
#define TG__AUTO_ELEMENTS ((size_t)1 << 20)

/* text: a method that says exchange=auto. setup: of a bucket, among setup->size ranks; its rank,
 * lanes, state, pool, exchange and nodes do not count. eta: learning rate; 0: unknown.
 *
 * Of the exchanges that the method allows and that may be chosen automatically (exchange.h), each
 * is foreseen by the program, or rehearsed on a random gradient of as much of the bucket as is
 * looked at; and the time of all its rounds predicted. *choice_p is what tg__exchange_pick takes,
 * where the usual one is that of a spec which names none. Logged. Errors those of parsing, and of
 * making and rehearsing the method if it is of the usual exchange; what is refused of the others is
 * none of the candidates */
TG_NODISCARD tg_status tg__auto_exchange(const char *text, const tg__method_setup *setup,
                                         double eta, const tg__network *net,
                                         const tg__exchange_ops **choice_p);

/* Number of a choice in tg__exchanges(), to be sent or stored; TG__NO_CHOICE for NULL. */
#define TG__NO_CHOICE 255
uint8_t tg__exchange_number(const tg__exchange_ops *x);
/* NULL: TG__NO_CHOICE, or none that may be chosen. */
const tg__exchange_ops *tg__exchange_numbered(uint8_t number);

#endif
