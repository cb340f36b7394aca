/* telegrad/weights.h - weights in safetensors files, which other programs can read.
 *
 *     tg_weights_open("model.safetensors", &w);     (or tg_weights_open_newest("checkpoints", &w))
 *     tg_weights_read(w, tensors, count, true);     into the caller's arrays, by name
 *     tg_weights_close(w);
 *
 * tg_session_save writes the global weights to step-N/model.safetensors. Files are not trusted: the
 * whole file is validated (lengths, names, types, shapes, no gaps, no overlaps) before anything is
 * returned, and what it says never makes telegrad allocate more than the size of the file.
 *
 * Source  the safetensors format (huggingface.co/docs/safetensors): a length in 8 bytes, little
 *         endian; a JSON header of that length; then the tensors, without gaps */
#ifndef TELEGRAD_WEIGHTS_H
#define TELEGRAD_WEIGHTS_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. It is immutable, and threads may share it. */
typedef struct tg_weights tg_weights;

/* Read a file into memory. The error text names the tensor, the field, its value and what is
 * allowed. A file of a checkpoint, beside its COMMIT (of final.safetensors: FINAL), must have the
 * checksum that is recorded there.
 * Errors  TG_E_IO, TG_E_CORRUPT, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_weights_open(const char *path, tg_weights **w_p);
/* Read the weights of the newest checkpoint in a folder that tg_session_save wrote to, and verify
 * them against the checksum beside them: final.safetensors if the run ended there
 * (tg_session_save_final wrote it), else model.safetensors. Newer folders without a COMMIT are not
 * read; tg_log warns of them.
 * Errors  as above; TG_E_IO (no finished checkpoint), TG_E_VERSION (an older format) */
TG_API TG_NODISCARD tg_status tg_weights_open_newest(const char *dir, tg_weights **w_p);
/* The same for model.safetensors, from which a resumed run continues, in any case.
 * Errors  as above */
TG_API TG_NODISCARD tg_status tg_weights_open_saved(const char *dir, tg_weights **w_p);
TG_API void tg_weights_close(tg_weights *w); /* NULL is fine */

/* The file's path. Lives as long as w. */
TG_API const char *tg_weights_path(const tg_weights *w);
/* A text of the file's __metadata__ by its name; NULL if there is none. tg_session_save writes
 * "format" ("pt": names and shapes as in PyTorch), "producer", "step", "method", "strategy",
 * "optimizer", and tg_session_config.metadata. Lives as long as w. */
TG_API const char *tg_weights_metadata(const tg_weights *w, const char *name);

/* A tensor of the caller's. Never grows, because it is used in arrays. */
typedef struct tg_weights_tensor {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim;         /* 0 to 8 */
    float *data;         /* (product of shape) */
} tg_weights_tensor;

/* Fill tensors with the file's tensors of the same name and shape. F32 is copied; F16 and BF16 are
 * widened, which is exact; other types are refused. Integer tensors of the file are ignored
 * (PyTorch's batch counters).
 * tensors  (count)
 * exact    true: the file must not hold other floating-point tensors; false: it may
 * Errors   TG_E_ARG (a tensor without name or data, or with more than 8 dimensions),
 *          TG_E_MISMATCH (names the tensor that is missing, unexpected, or has another shape or
 *          type). On an error no tensor is changed */
TG_API TG_NODISCARD tg_status tg_weights_read(const tg_weights *w, const tg_weights_tensor *tensors,
                                              size_t count, bool exact);

#ifdef __cplusplus
}
#endif
#endif
