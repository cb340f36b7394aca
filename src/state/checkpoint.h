/* The layout of a checkpoint file, shared by its writer and its reader. Numbers are little-endian.
 *
 *   head     8  magic "TGCKPT\r\n"
 *            4  version
 *            4  CRC-32C of the 12 bytes before
 *   section  8  data length d
 *            4  name length l > 0
 *            4  CRC-32C of the 12 bytes before and of what follows:
 *            l  name, then zeros to a multiple of 8
 *            d  data, then zeros to a multiple of 8
 *   ...
 *   end      8  number of sections
 *            4  zero
 *            4  CRC-32C of the 12 bytes before
 *
 * The first section is "identity". Every byte is covered by a CRC, and nothing follows the end. */
#ifndef TG_STATE_CHECKPOINT_H
#define TG_STATE_CHECKPOINT_H

#include "base/mem.h"
#include "kernel/kernel.h"

#define TG__CKPT_MAGIC "TGCKPT\r\n"
#define TG__CKPT_VERSION 2u
#define TG__CKPT_HEAD 16u /* bytes of the file's head, of a section's head, of the end */
#define TG__CKPT_IDENTITY "identity"
#define TG__CKPT_NAME_MAX 65536u

/* Zeros after `len` bytes up to a multiple of 8. */
static inline size_t tg__ckpt_pad(uint64_t len)
{
    return (size_t)(-len & 7);
}

#endif
