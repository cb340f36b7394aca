/* exchange=auto: what a method's exchanges would take over the network as it is, and the choice. */
#ifndef TG_AUTO_EXCHANGE_H
#define TG_AUTO_EXCHANGE_H

#include "exchange/predict.h"
#include "method/method.h"

/* A bucket whose method says exchange=auto. */
typedef struct tg__auto_request {
    const tg_spec *spec; /* its method's */
    uint32_t bucket;     /* for the log */
    int size;            /* ranks */
    size_t n;            /* elements */
    uint64_t seed;
    double eta; /* learning rate; 0: unknown */
    /* The bucket's method with this setup completed: it has rank, size, lanes, state, exchange. */
    tg_status (*make)(void *arg, tg__method_setup alone, tg__method **m_p);
    void *arg;
} tg__auto_request;

/* Of the exchanges that the method allows and that may be chosen automatically (exchange.h), each
 * is rehearsed on a random gradient, and the time of all its rounds among size ranks predicted.
 * *choice_p is what tg__exchange_pick takes, where the usual one is that of a spec which names
 * none. Logged. Errors those of making and rehearsing the method, if it is of the usual exchange;
 * what is refused of the others is none of the candidates */
TG_NODISCARD tg_status tg__auto_exchange(const tg__auto_request *q, const tg__network *net,
                                         const tg__exchange_ops **choice_p);

/* Number of a choice in tg__exchanges(), to be sent or stored; TG__NO_CHOICE for NULL. */
#define TG__NO_CHOICE 255
uint8_t tg__exchange_number(const tg__exchange_ops *x);
/* NULL: TG__NO_CHOICE, or none that may be chosen. */
const tg__exchange_ops *tg__exchange_numbered(uint8_t number);

#endif
