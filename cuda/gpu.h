/* For kernels: CUDA, or the emulation of it in which they are tested where there is no GPU.
 *
 * A kernel is started by TG__LAUNCH(kernel, blocks, threads, stream, argument...). Shared memory is
 * static. Blocks of a kernel must not wait for each other: the emulation runs them one by one.
 * Files are compiled without fused multiply-add, so a * b + c rounds twice, as on the host. */
#ifndef TG_CUDA_GPU_H
#define TG_CUDA_GPU_H

#ifdef TG__CUDA_EMULATED
#include "emulated_cuda.h"
#else
#include <cuda_runtime.h>
#define TG__LAUNCH(kernel, blocks, threads, stream, ...) \
    kernel<<<(blocks), (threads), 0, (stream)>>>(__VA_ARGS__)
#endif

#include <stdint.h>

#endif
