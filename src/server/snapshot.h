/* The state of a server that keeps parameters, as a checkpoint file; and recovery from it and the
 * journal's log. */
#ifndef TG_SERVER_SNAPSHOT_H
#define TG_SERVER_SNAPSHOT_H

#include "server/server_impl.h"

/* Write snapshot `number` of the journal, and begin its log. The old log must be synced.
 * Errors  TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__snapshot_write(tg_server *s, uint64_t number);
/* Bytes of the vectors in a snapshot. */
uint64_t tg__snapshot_bytes(const tg_server *s);
/* Open a journal's folder: read the newest snapshot and replay its log, or begin a new journal.
 * Errors  those of tg__journal_open and tg__journal_replay; TG_E_MISMATCH (another shard or
 *         optimizer) */
TG_NODISCARD tg_status tg__snapshot_recover(tg_server *s, const char *dir);

/* When the updates in the log are replaced by a snapshot: once they have taken more than least_ns,
 * and `times` as long as a snapshot. Tests change it. */
extern struct tg__snapshot_work {
    int64_t least_ns, times;
} tg__snapshot_work;
/* Whether a snapshot is to replace the log, because that is long, or slow to replay. */
bool tg__snapshot_is_due(const tg_server *s);

#endif
