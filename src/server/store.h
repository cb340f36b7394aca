/* Memory for messages, which is reused, so that a step needs no new pages. */
#ifndef TG_SERVER_STORE_H
#define TG_SERVER_STORE_H

#include "telegrad/base.h"

typedef struct tg__store {
    struct tg__stored *spare; /* smallest first */
} tg__store;

/* Get at least len bytes, aligned to TG_ALIGN.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__store_take(tg__store *store, size_t len, uint8_t **bytes_p);
/* Give them back. NULL is fine. */
void tg__store_give(tg__store *store, uint8_t *bytes);
/* Free what has been given back. */
void tg__store_fini(tg__store *store);

#endif
