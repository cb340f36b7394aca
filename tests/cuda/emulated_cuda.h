/* Kernels on the host: enough of CUDA C++ to run the .cu files of this library, slowly, where there
 * is no GPU. For C++17.
 *
 * A kernel runs when the host waits for its stream (emulated_runtime.cc). Blocks run one after
 * another. The threads of a block are fibers of the thread that waits, which change at
 * __syncthreads, at the operations of warps and when they end, in an order that is another each
 * time; a thread that waits for others that never come ends the program with a message. Shared
 * memory keeps its content from block to block, and device memory is not zero, so that code which
 * relies on either fails. */
#ifndef TG_EMULATED_CUDA_H
#define TG_EMULATED_CUDA_H

#include "cuda_runtime_api.h"
#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __constant__ static const
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct tg__dim {
    unsigned x, y, z;
    tg__dim(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
typedef tg__dim dim3;

struct __align__(16) float4
{
    float x, y, z, w;
};
struct __align__(8) float2
{
    float x, y;
};
struct __align__(16) uint4
{
    unsigned x, y, z, w;
};
struct __align__(8) uint2
{
    unsigned x, y;
};
struct __align__(4) uchar4
{
    unsigned char x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return uint4{x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return uint2{x, y};
}

/* ---- threads --------------------------------------------------------------------------------- */

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Run body(arg) once for each thread of each block. */
void tg__emulate(dim3 blocks, dim3 threads, void (*body)(void *arg), void *arg);
void __syncthreads(void);
/* Wait for the lanes of the mask; those that have ended do not count. */
void __syncwarp(unsigned mask = 0xffffffffu);
/* Give `value` to the warp; [out] what each lane gave, as 32 words of 64 bits, which stay valid
 * until the lane's next operation. */
const uint64_t *tg__warp_share(unsigned mask, uint64_t value);
unsigned tg__lane(void);
int __syncthreads_or(int x);
int __syncthreads_count(int x);

/* Give work to a stream. */
void tg__enqueue(cudaStream_t stream, std::function<void()> work);

template <class... P, class... A>
void tg__launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, A... args)
{
    struct call {
        void (*kernel)(P...);
        std::tuple<P...> args;
    } c = {kernel, std::tuple<P...>(static_cast<P>(args)...)};
    tg__enqueue(stream, [c, blocks, threads]() mutable {
        tg__emulate(
            blocks, threads,
            [](void *arg) {
                call *own = static_cast<call *>(arg);
                std::apply(own->kernel, own->args);
            },
            &c);
    });
}
#define TG__LAUNCH(kernel, blocks, threads, stream, ...) \
    tg__launch((stream), kernel, (blocks), (threads), __VA_ARGS__)

/* ---- warps ----------------------------------------------------------------------------------- */

template <class T> static inline uint64_t tg__word_of(T x)
{
    uint64_t word = 0;
    static_assert(sizeof x <= 8, "warps share words of 64 bits");
    memcpy(&word, &x, sizeof x);
    return word;
}
template <class T> static inline T tg__of_word(uint64_t word)
{
    T x;
    memcpy(&x, &word, sizeof x);
    return x;
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32)
{
    const unsigned base = tg__lane() & ~(unsigned)(width - 1);
    return tg__of_word<T>(
        tg__warp_share(mask, tg__word_of(x))[base + ((unsigned)from & (width - 1))]);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const unsigned lane = tg__lane(), in = lane & (width - 1);
    return tg__of_word<T>(tg__warp_share(mask, tg__word_of(x))[in >= by ? lane - by : lane]);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const unsigned lane = tg__lane(), in = lane & (width - 1);
    return tg__of_word<T>(
        tg__warp_share(mask, tg__word_of(x))[in + by < (unsigned)width ? lane + by : lane]);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32)
{
    const unsigned lane = tg__lane(), other = lane ^ (unsigned)with;
    return tg__of_word<T>(tg__warp_share(
        mask, tg__word_of(
                  x))[(other & ~(unsigned)(width - 1)) == (lane & ~(unsigned)(width - 1)) ? other
                                                                                          : lane]);
}
static inline unsigned __ballot_sync(unsigned mask, int x)
{
    const uint64_t *all = tg__warp_share(mask, x != 0 ? 1 : 2);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        bits |= (unsigned)(all[lane] == 1 && (mask >> lane & 1)) << lane;
    return bits;
}
static inline int __any_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x) != 0;
}
static inline int __all_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x == 0) == 0;
}
template <class T, class F> static inline T tg__warp_fold(unsigned mask, T x, F fold)
{
    const uint64_t *all = tg__warp_share(mask, tg__word_of(x));
    T result = x;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1)
            result = fold(result, tg__of_word<T>(all[lane]), lane == tg__lane());
    return result;
}
static inline unsigned __reduce_add_sync(unsigned mask, unsigned x)
{
    return tg__warp_fold(mask, x, [](unsigned a, unsigned b, bool own) { return own ? a : a + b; });
}
static inline unsigned __reduce_max_sync(unsigned mask, unsigned x)
{
    return tg__warp_fold(mask, x, [](unsigned a, unsigned b, bool) { return a > b ? a : b; });
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned x)
{
    return tg__warp_fold(mask, x, [](unsigned a, unsigned b, bool) { return a < b ? a : b; });
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned x)
{
    return tg__warp_fold(mask, x, [](unsigned a, unsigned b, bool) { return a | b; });
}

/* ---- memory ---------------------------------------------------------------------------------- */

template <class T, class U> static inline T atomicAdd(T *at, U x)
{
    T old = *at;
    *at = old + (T)x;
    return old;
}
template <class T, class U> static inline T atomicOr(T *at, U x)
{
    T old = *at;
    *at = old | (T)x;
    return old;
}
template <class T, class U> static inline T atomicAnd(T *at, U x)
{
    T old = *at;
    *at = old & (T)x;
    return old;
}
template <class T, class U> static inline T atomicMax(T *at, U x)
{
    T old = *at;
    *at = old > (T)x ? old : (T)x;
    return old;
}
template <class T, class U> static inline T atomicMin(T *at, U x)
{
    T old = *at;
    *at = old < (T)x ? old : (T)x;
    return old;
}
template <class T, class U> static inline T atomicExch(T *at, U x)
{
    T old = *at;
    *at = (T)x;
    return old;
}
template <class T, class U, class V> static inline T atomicCAS(T *at, U expected, V x)
{
    T old = *at;
    if (old == (T)expected)
        *at = (T)x;
    return old;
}
static inline void __threadfence(void)
{
}
static inline void __threadfence_system(void)
{
}
template <class T> static inline T __ldg(const T *at)
{
    return *at;
}
template <class T> static inline T __ldcs(const T *at)
{
    return *at;
}
template <class T> static inline T __ldcg(const T *at)
{
    return *at;
}
template <class T> static inline void __stcs(T *at, T x)
{
    *at = x;
}
template <class T> static inline void __stcg(T *at, T x)
{
    *at = x;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static inline unsigned __float_as_uint(float x)
{
    return tg__of_word<unsigned>(tg__word_of(x));
}
static inline float __uint_as_float(unsigned x)
{
    return tg__of_word<float>(tg__word_of(x));
}
static inline int __float_as_int(float x)
{
    return (int)__float_as_uint(x);
}
static inline float __int_as_float(int x)
{
    return __uint_as_float((unsigned)x);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
static inline float __double2float_rn(double a)
{
    return (float)a;
}
static inline int __float2int_rn(float x)
{
    return (int)rintf(x);
}
template <class T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
