/* Sealing and opening of envelopes. First the bytes are verified (magic, version, length,
 * checksum), then their meaning, so that a damaged message is never mistaken for one of another
 * step. */
#include "wire/envelope.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <inttypes.h>
#include <string.h>

enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_FLAGS = 6,
    AT_SESSION = 8,
    AT_STEP = 16,
    AT_SENDER = 24,
    AT_BUCKET = 28,
    AT_ROUND = 30,
    AT_SLICE = 32,
    AT_CHANNEL = 34,
    AT_LENGTH = 36,
    AT_CRC = 44
};

static const uint8_t magic[4] = {'T', 'G', 'E', '1'};

static uint32_t checksum(const uint8_t *msg, size_t len)
{
    const tg__kernels *kernel = tg__kernel();
    return kernel->crc32c(kernel->crc32c(0, msg, AT_CRC), msg + TG__ENVELOPE_BYTES, len);
}

void tg__envelope_seal(uint8_t *msg, const tg__envelope *e, size_t len)
{
    memcpy(msg + AT_MAGIC, magic, sizeof(magic));
    tg__put16(msg + AT_VERSION, TG__ENVELOPE_VERSION);
    tg__put16(msg + AT_FLAGS, e->flags);
    tg__put64(msg + AT_SESSION, e->session);
    tg__put64(msg + AT_STEP, e->step);
    tg__put32(msg + AT_SENDER, e->sender);
    tg__put16(msg + AT_BUCKET, e->bucket);
    tg__put16(msg + AT_ROUND, e->round);
    tg__put16(msg + AT_SLICE, e->slice);
    tg__put16(msg + AT_CHANNEL, e->channel);
    tg__put64(msg + AT_LENGTH, len);
    tg__put32(msg + AT_CRC, checksum(msg, len));
}

void tg__envelope_peek(const uint8_t *msg, tg__envelope *e)
{
    *e = (tg__envelope){.session = tg__get64(msg + AT_SESSION),
                        .step = tg__get64(msg + AT_STEP),
                        .sender = tg__get32(msg + AT_SENDER),
                        .flags = tg__get16(msg + AT_FLAGS),
                        .bucket = tg__get16(msg + AT_BUCKET),
                        .round = tg__get16(msg + AT_ROUND),
                        .slice = tg__get16(msg + AT_SLICE),
                        .channel = tg__get16(msg + AT_CHANNEL)};
}

static tg_status expect(uint32_t rank, const char *field, uint64_t got, uint64_t want)
{
    if (got == want)
        return TG_OK;
    return tg_fail(TG_E_PEER,
                   "message from rank %" PRIu32 ": %s=%" PRIu64 ": expected %" PRIu64
                   " (from another rank, or " TG__OTHER_CALL ")",
                   rank, field, got, want);
}

tg_status tg__envelope_open(const uint8_t *msg, size_t msg_len, const tg__envelope *want,
                            uint16_t *flags_p, size_t *len_p)
{
    uint32_t rank = want->sender;
    if (msg_len < TG__ENVELOPE_BYTES)
        return tg_fail(TG_E_CORRUPT, "message from rank %" PRIu32 ": length=%zu: at least %u", rank,
                       msg_len, TG__ENVELOPE_BYTES);
    if (memcmp(msg + AT_MAGIC, magic, sizeof(magic)) != 0)
        return tg_fail(TG_E_CORRUPT,
                       "message from rank %" PRIu32 ": magic=%08" PRIx32 ": expected %08" PRIx32
                       " (not a telegrad message)",
                       rank, tg__get32(msg + AT_MAGIC), tg__get32(magic));
    uint16_t version = tg__get16(msg + AT_VERSION);
    if (version != TG__ENVELOPE_VERSION)
        return tg_fail(TG_E_VERSION,
                       "message from rank %" PRIu32 ": version=%u: this build reads %u", rank,
                       version, TG__ENVELOPE_VERSION);
    size_t len = msg_len - TG__ENVELOPE_BYTES;
    uint64_t stated = tg__get64(msg + AT_LENGTH);
    if (stated != len)
        return tg_fail(TG_E_CORRUPT,
                       "message from rank %" PRIu32 ": payload length=%" PRIu64
                       ": %zu bytes arrived",
                       rank, stated, len);
    uint32_t crc = checksum(msg, len), sent = tg__get32(msg + AT_CRC);
    if (crc != sent)
        return tg_fail(TG_E_CORRUPT,
                       "message from rank %" PRIu32 ": checksum=%08" PRIx32
                       ": the bytes that arrived have %08" PRIx32,
                       rank, sent, crc);
    uint16_t flags = tg__get16(msg + AT_FLAGS);
    if (flags &
        ~(TG__FLAG_NONFINITE | TG__FLAG_STOP | TG__FLAG_CLOSES | TG__FLAG_SPOILS | TG__FLAG_WISH))
        return tg_fail(TG_E_CORRUPT, "message from rank %" PRIu32 ": flags=%#x: known are 0x1f",
                       rank, flags);
    uint64_t session = tg__get64(msg + AT_SESSION);
    if (session != want->session)
        return tg_fail(TG_E_MISMATCH,
                       "message from rank %" PRIu32 ": session=%016" PRIx64 ": expected %016" PRIx64
                       " (another job, or started differently)",
                       rank, session, want->session);
    TG_TRY(expect(rank, "sender", tg__get32(msg + AT_SENDER), want->sender));
    TG_TRY(expect(rank, "channel", tg__get16(msg + AT_CHANNEL), want->channel));
    TG_TRY(expect(rank, "step", tg__get64(msg + AT_STEP), want->step));
    TG_TRY(expect(rank, "bucket", tg__get16(msg + AT_BUCKET), want->bucket));
    TG_TRY(expect(rank, "round", tg__get16(msg + AT_ROUND), want->round));
    TG_TRY(expect(rank, "slice", tg__get16(msg + AT_SLICE), want->slice));
    *flags_p = flags;
    *len_p = len;
    return TG_OK;
}
