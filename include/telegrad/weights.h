/* telegrad/weights.h - weights in files that other programs read: the safetensors format.
 *
 *     tg_weights_open("model.safetensors", &w);     or tg_weights_open_newest("checkpoints", &w)
 *     tg_weights_read(w, tensors, count, true);     into the caller's arrays, by name
 *     tg_weights_close(w);
 *
 * tg_session_save writes the global weights as step-N/model.safetensors. A file from elsewhere is
 * not trusted: it is validated whole (lengths, names, types, shapes, no holes, no overlaps) before
 * anything is handed out, and nothing is allocated by what it says beyond its own size.
 *
 * Source   the format as the safetensors library has it (huggingface.co/docs/safetensors): 8 bytes
 *          little-endian length, a JSON header of so many bytes, then the tensors without gaps */
#ifndef TELEGRAD_WEIGHTS_H
#define TELEGRAD_WEIGHTS_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open file: immutable, may be shared by threads. */
typedef struct tg_weights tg_weights;

/* Read a file into memory. Whatever is wrong is named with the tensor, the field, its value and
 * what is allowed. Errors TG_E_IO, TG_E_CORRUPT, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_weights_open(const char *path, tg_weights **w_p);
/* model.safetensors of the newest checkpoint in a folder that tg_session_save wrote to, compared
 * with the check sum in its COMMIT.
 * Errors as above; TG_E_IO (no finished checkpoint), TG_E_VERSION (of an older format) */
TG_API TG_NODISCARD tg_status tg_weights_open_newest(const char *dir, tg_weights **w_p);
TG_API void tg_weights_close(tg_weights *w); /* NULL is fine */

/* The file's path. Lives as long as w. */
TG_API const char *tg_weights_path(const tg_weights *w);
/* The text under this name in the file's __metadata__; NULL: there is none. tg_session_save writes
 * "format" ("pt": names and shapes are PyTorch's), "producer", "step", "method", "strategy",
 * "optimizer", and what tg_session_config.metadata holds. Lives as long as w. */
TG_API const char *tg_weights_metadata(const tg_weights *w, const char *name);

/* A tensor of the caller's (this layout is frozen: it stands in arrays). */
typedef struct tg_weights_tensor {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim;         /* 0 to 8 */
    float *data;         /* (product of shape) */
} tg_weights_tensor;

/* Fill `count` tensors, each with the file's tensor of its name and shape. F32 comes as it is, F16
 * and BF16 are widened, which is exact; other types are refused. The file's tensors of whole
 * numbers are left alone (PyTorch's counters of batches).
 * exact    the file must hold no other tensors of fractions; false: it may
 * Errors   TG_E_ARG (a tensor without name or data, or of more than 8 dimensions); TG_E_MISMATCH:
 * names the tensor that is missing, unexpected or of another shape or type. Then none is changed.
 */
TG_API TG_NODISCARD tg_status tg_weights_read(const tg_weights *w, const tg_weights_tensor *tensors,
                                              size_t count, bool exact);

#ifdef __cplusplus
}
#endif
#endif
