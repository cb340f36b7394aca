/* The folder in which a server that keeps parameters saves its state, so that it can continue after
 * a crash: snapshots, and a log of what has happened since the newest one.
 *
 *   state-<12 digits>.tg  snapshot K, a checkpoint file (state/checkpoint.h)
 *   log-<12 digits>       what has happened since snapshot K: a head, then records
 *   log.tmp               a log that is being begun
 *   lock                  locked while a server uses the folder
 *
 *   head     8  magic "TGLOG\r\n" and a zero    record  4  kind
 *            4  version (4)                             4  rank
 *            4  CRC-32C of the 12 bytes before          4  tag
 *            8  bytes known to be on disk               4  CRC-32C of the body
 *            4  CRC-32C of the 8 bytes before           8  length of the body
 *            4  zero                                    4  worker (tg__stamp)
 *                                                       8  number of its message
 *                                                       4  CRC-32C of the 36 bytes before
 *                                                       l  body
 *
 * PUSH    a gradient. The body is the message as it arrived
 * ANSWER  the rank was sent parameters, which mode compensate must remember. The body says which:
 *         channel (2), bucket (2), first element (4), elements (4), zero (12)
 * COME    the rank offered parameters that the server already had. The same body, but in place of
 *         the zeros: flags (4), and the step at which the rank begins (8). Flags: 1 steps count
 *         from 0 again; 2 the first message of a worker that was not known; 4 what waited is
 *         forgotten
 * BACK    the worker came back to its seat. The body is the step (8) from which it counts if it has
 *         made fewer
 * ROUND   a round (server/round.h) has ended. The body says which: channel (2), bucket (2), first
 *         element (4), elements (4), number of gradients (4), step (8), 1 if they are enough (4),
 *         and the rank of each (4)
 * PASS    the worker will not be back: it has left, or the others did not wait for it any longer
 *
 * A push is answered only once it is on disk, so no update that a worker knows of is lost. All
 * pushes that arrived meanwhile share one fdatasync; then the head is set to the length that is on
 * disk. Records are in the order in which pushes were applied, so a server that replays them has
 * the same bits. After a power failure, any part of what was written since the last fdatasync may
 * be missing. The log is cut off there at the first incomplete record, which was never answered. An
 * incomplete record before that place is damage, and an error. */
#ifndef TG_SERVER_JOURNAL_H
#define TG_SERVER_JOURNAL_H

#include "base/mem.h"

typedef struct tg__journal {
    char *dir;
    int lock, fd;     /* -1: not open; fd: of the log */
    uint64_t number;  /* of the newest snapshot, and of its log */
    uint64_t len;     /* bytes of the log, including those in `out` */
    uint64_t records; /* in the log */
    uint64_t read;    /* during a replay: where in the log this record ends */
    uint64_t to_read; /* and how long the log is */
    uint8_t *out;     /* (TG__JOURNAL_OUT) bytes to be written */
    size_t out_len;
    bool dirty;  /* something is not on disk */
    bool broken; /* writing has failed: nothing more is written */
    uint64_t syncs;
    int64_t sync_ns; /* the time they took */
} tg__journal;

#define TG__JOURNAL_OUT ((size_t)256 << 10)

enum tg__record_kind {
    TG__RECORD_PUSH = 1,
    TG__RECORD_ANSWER,
    TG__RECORD_COME,
    TG__RECORD_BACK,
    TG__RECORD_ROUND,
    TG__RECORD_PASS
};

typedef struct tg__journal_record {
    uint32_t kind, rank, tag;
    uint64_t len;    /* of the body */
    uint32_t worker; /* 0 with number 0: it does not come back */
    uint64_t number;
} tg__journal_record;

/* Open and lock a folder; it is created if it does not exist. j: all zero.
 * found_p  [out] true: there is a snapshot, j->number. false: call tg__journal_begin, then
 *          write one
 * Errors   TG_E_IO (also: another server uses it), TG_E_NOMEM; tg__journal_close is needed all the
 *          same */
TG_NODISCARD tg_status tg__journal_open(tg__journal *j, const char *dir, bool *found_p);
/* The path of snapshot `number`; free it. NULL: out of memory. */
char *tg__journal_snapshot(const tg__journal *j, uint64_t number);
/* Read the log of snapshot j->number, call `replay` for each record, and continue the log from its
 * end.
 * replay  body: aligned to 8, valid during the call. Errors end the reading
 * Errors  those of replay, TG_E_IO, TG_E_CORRUPT, TG_E_VERSION (name file and position),
 *         TG_E_NOMEM */
TG_NODISCARD tg_status tg__journal_replay(tg__journal *j,
                                          tg_status (*replay)(void *arg,
                                                              const tg__journal_record *record,
                                                              const uint8_t *body),
                                          void *arg);
/* Begin log `number`, which is on disk when this returns. Write snapshot `number` after that, so
 * that each snapshot has a whole log, however the server dies: a log that is shorter than its head
 * is damage.
 * Errors  TG_E_IO, TG_E_NOMEM; then nothing more can be written */
TG_NODISCARD tg_status tg__journal_begin(tg__journal *j, uint64_t number);
/* After snapshot j->number was written: delete older snapshots and logs.
 * Errors  TG_E_IO */
TG_NODISCARD tg_status tg__journal_forget(tg__journal *j);
/* Append a record, which tg__journal_sync puts on disk.
 * Errors  TG_E_IO */
TG_NODISCARD tg_status tg__journal_add(tg__journal *j, const tg__journal_record *record,
                                       const uint8_t *body);
TG_NODISCARD tg_status tg__journal_sync(tg__journal *j);
void tg__journal_close(tg__journal *j);

#endif
