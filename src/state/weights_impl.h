/* Weights files, shared by reader and writer.
 *
 *   8  header length n, little-endian
 *   n  {"__metadata__":{"NAME":"TEXT",..},"TENSOR":{"dtype":"F32","shape":[5,5],
 *      "data_offsets":[0,100]},..}, then blanks
 *      the tensors, row-major and little-endian, without gaps; offsets count from here
 *
 * The writer pads the header to a multiple of 8, and writes the tensors in the order given. */
#ifndef TG_STATE_WEIGHTS_IMPL_H
#define TG_STATE_WEIGHTS_IMPL_H

#include "base/mem.h"
#include "telegrad/weights.h"

#define TG__WEIGHTS_HEAD 8u
#define TG__WEIGHTS_HEADER_MAX 100000000u /* as the safetensors library allows */
#define TG__WEIGHTS_DIMS 8u
#define TG__WEIGHTS_METADATA "__metadata__"

/* An element type: name, bytes, and whether it is a floating-point type. */
typedef struct tg__weights_type {
    const char *name;
    size_t bytes;
    bool fractions;
} tg__weights_type;

typedef struct tg__weights_entry {
    const char *name;
    const tg__weights_type *type;
    size_t shape[TG__WEIGHTS_DIMS], ndim, n;
    uint64_t begin, end; /* byte offsets from the start of the tensors */
} tg__weights_entry;

typedef struct tg__weights_pair {
    const char *name, *text;
} tg__weights_pair;

struct tg_weights {
    char *path;
    uint8_t *owned;           /* the file, unless parsed from the caller's memory */
    const uint8_t *data;      /* (data_bytes) the tensors */
    char *text;               /* a copy of the header, which holds names and texts */
    tg__weights_entry *entry; /* (count) sorted by name */
    tg__weights_pair *pair;   /* (npairs) sorted by name */
    size_t count, cap, npairs, pair_cap;
    uint64_t data_bytes;
};

/* The record of a weights file in COMMIT or FINAL. */
typedef struct tg__weights_mark {
    uint64_t bytes;
    uint32_t crc;   /* CRC-32C of all bytes */
    const char *in; /* the name of the file it was read from */
} tg__weights_mark;

/* Validate a file's bytes (len) and list its contents; the bytes are borrowed until close. path is
 * for messages.
 * Errors  TG_E_CORRUPT, TG_E_NOMEM */
TG_NODISCARD tg_status tg__weights_parse(const void *bytes, size_t len, const char *path,
                                         tg_weights **w_p);
/* The order of entries or pairs by name, which is their first member; a name's address compares as
 * well. */
int tg__weights_by_name(const void *a, const void *b);
/* Fill w from its header's text (len); data_bytes must be set. (weights_header.c) */
TG_NODISCARD tg_status tg__weights_parse_header(tg_weights *w, size_t len);

/* Write F32 tensors with distinct names, and metadata, to a temporary file, and rename it. Bytes of
 * the metadata that are not UTF-8 become U+FFFD.
 * Errors  TG_E_IO, TG_E_ARG (a name that is not UTF-8, or is "__metadata__") */
TG_NODISCARD tg_status tg__weights_write(const char *path, const tg_weights_tensor *tensors,
                                         size_t count, const tg__weights_pair *metadata,
                                         size_t npairs, tg__weights_mark *mark_p);

/* Open model.safetensors of a committed checkpoint, and compare it with its COMMIT.
 * Errors  those of tg_weights_open, TG_E_VERSION, TG_E_ARG */
TG_NODISCARD tg_status tg__weights_open_step(const char *dir, uint64_t step, tg_weights **w_p);

/* A name from a file, in printable form: at most 64 bytes, no control characters. */
typedef struct tg__shown {
    char text[68];
} tg__shown;
tg__shown tg__show(const char *name);

#endif
