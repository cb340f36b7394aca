/* Host names to addresses. The system's resolver may take minutes and cannot be told to stop, so it
 * runs in a thread that is left alone when its answer is not wanted any more. */
#ifndef TG_NET_LOOKUP_H
#define TG_NET_LOOKUP_H

#include "net/address.h"
#include <netdb.h>

typedef struct tg__lookup tg__lookup;

/* Begin. An address in numbers, or none ("": every interface), is found at once.
 * passive  for listening
 * Errors   TG_E_NOMEM */
TG_NODISCARD tg_status tg__lookup_begin(const tg__address *a, bool passive, tg__lookup **l_p);
/* A descriptor that becomes readable when the answer is there; -1: it is there already. */
int tg__lookup_fd(const tg__lookup *l);
bool tg__lookup_is_done(tg__lookup *l);
/* The answer, once it is there; it belongs to the lookup.
 * Errors  TG_E_IO (the name is unknown), TG_E_PEER (the name server does not answer: try again) */
TG_NODISCARD tg_status tg__lookup_found(const tg__lookup *l, const struct addrinfo **found_p);
/* Forget it, whether the answer is there or not. NULL is fine. */
void tg__lookup_end(tg__lookup *l);

#endif
