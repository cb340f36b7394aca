/* CUDA's runtime API on the host, as strict as a GPU can be. What is given to a stream is done
 * as late as possible: when the host, or another stream, waits for it. So a copy reads host
 * memory that was changed in the meantime, and the host reads results that are not there yet,
 * unless the code waits as it must. Memory is filled when it is allocated and when it is freed,
 * and what lies around it is checked then. Wrong addresses end the program with a message. */
#include "emulated_cuda.h"
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

struct tg__emulated_stream {
    std::deque<std::function<void()>> work;
};

/* When it was recorded last; shared with those who wait for that. */
struct moment {
    bool over = false;
};
struct tg__emulated_event {
    std::shared_ptr<moment> last;
    tg__emulated_stream *stream = nullptr;
};

namespace
{
enum { AROUND = 256, CANARY = 0xc3, FRESH = 0xa5, FREED = 0x5a };

std::recursive_mutex mutex; /* of everything here, also while work is done */
typedef std::lock_guard<std::recursive_mutex> locked;
tg__emulated_stream legacy;
std::set<tg__emulated_stream *> streams = {&legacy};
std::map<char *, size_t> device_memory, pinned_memory; /* begin, bytes */
thread_local cudaError_t last;

cudaError_t fail(cudaError_t error)
{
    return last = error;
}

[[noreturn]] void wrong(const char *what)
{
    fprintf(stderr, "emulated CUDA: %s\n", what);
    abort();
}

tg__emulated_stream *known(cudaStream_t stream)
{
    tg__emulated_stream *s = stream == nullptr ? &legacy : stream;
    if (streams.count(s) == 0)
        wrong("a stream that was destroyed");
    return s;
}

/* Do the work of a stream: all, or until that moment. */
void finish(tg__emulated_stream *s, const moment *until = nullptr)
{
    while (!s->work.empty() && (until == nullptr || !until->over)) {
        const std::function<void()> next = std::move(s->work.front());
        s->work.pop_front();
        next();
    }
}

void finish_all(void)
{
    for (tg__emulated_stream *s : std::set<tg__emulated_stream *>(streams))
        finish(s);
}

bool within(const std::map<char *, size_t> &memory, const void *p, size_t bytes)
{
    char *begin = static_cast<char *>(const_cast<void *>(p));
    auto next = memory.upper_bound(begin);
    if (next == memory.begin())
        return false;
    const auto block = std::prev(next);
    return begin + bytes <= block->first + block->second;
}

cudaError_t allocate(void **p, size_t bytes, std::map<char *, size_t> &memory)
{
    const locked lock(mutex);
    *p = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    const size_t room = (bytes + 2 * AROUND + AROUND - 1) / AROUND * AROUND;
    char *block = static_cast<char *>(aligned_alloc(AROUND, room));
    if (block == nullptr)
        return fail(cudaErrorMemoryAllocation);
    memset(block, CANARY, room);
    memset(block + AROUND, FRESH, bytes);
    memory[block + AROUND] = bytes;
    *p = block + AROUND;
    return cudaSuccess;
}

cudaError_t release(void *p, std::map<char *, size_t> &memory)
{
    const auto found = memory.find(static_cast<char *>(p));
    if (found == memory.end())
        wrong("memory is freed that was not allocated");
    const auto [begin, bytes] = *found;
    for (size_t i = 0; i < AROUND; i++)
        if (static_cast<unsigned char>(begin[-1 - static_cast<ptrdiff_t>(i)]) != CANARY ||
            static_cast<unsigned char>(begin[bytes + i]) != CANARY)
            wrong("something was written beside an allocation");
    memory.erase(found);
    memset(begin, FREED, bytes);
    free(begin - AROUND);
    return cudaSuccess;
}
} // namespace

void tg__enqueue(cudaStream_t stream, std::function<void()> work)
{
    const locked lock(mutex);
    known(stream)->work.push_back(std::move(work));
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void)
{
    return last;
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "emulated error";
}
const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaErrorEmulated";
}

/* ---- memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    return allocate(p, bytes, device_memory);
}
cudaError_t cudaFree(void *p)
{
    const locked lock(mutex);
    if (p == nullptr)
        return cudaSuccess;
    finish_all();
    return release(p, device_memory);
}
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    return allocate(p, bytes, pinned_memory);
}
cudaError_t cudaFreeHost(void *p)
{
    const locked lock(mutex);
    if (p == nullptr)
        return cudaSuccess;
    finish_all();
    return release(p, pinned_memory);
}
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    const locked lock(mutex);
    if (within(pinned_memory, p, bytes))
        return fail(cudaErrorHostMemoryAlreadyRegistered);
    pinned_memory[static_cast<char *>(p)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *p)
{
    const locked lock(mutex);
    finish_all();
    return pinned_memory.erase(static_cast<char *>(p)) == 1
               ? cudaSuccess
               : fail(cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    const locked lock(mutex);
    *device = host;
    return within(pinned_memory, host, 1) ? cudaSuccess : fail(cudaErrorInvalidValue);
}

/* Host memory that is not pinned is read, or written, before this returns. */
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const locked lock(mutex);
    const bool out = kind == cudaMemcpyDeviceToHost, in = kind == cudaMemcpyHostToDevice;
    if (bytes == 0)
        return cudaSuccess;
    if (!in && !within(device_memory, src, bytes))
        wrong("a copy begins beside device memory");
    if (!out && !within(device_memory, dst, bytes))
        wrong("a copy ends beside device memory");
    if (in && !within(pinned_memory, src, bytes)) {
        const char *from = static_cast<const char *>(src);
        const std::vector<char> copy(from, from + bytes);
        tg__enqueue(stream, [=]() { memcpy(dst, copy.data(), bytes); });
    } else {
        tg__enqueue(stream, [=]() { memmove(dst, src, bytes); });
        if (out && !within(pinned_memory, dst, bytes))
            finish(known(stream));
    }
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    const locked lock(mutex);
    const cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
    finish(&legacy);
    return error;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    const locked lock(mutex);
    if (bytes > 0 && !within(device_memory, p, bytes))
        wrong("memory is set beside device memory");
    tg__enqueue(stream, [=]() { memset(p, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    return cudaMemsetAsync(p, value, bytes, nullptr);
}

/* ---- streams and events ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    const locked lock(mutex);
    streams.insert(*stream = new tg__emulated_stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const locked lock(mutex);
    finish(known(stream));
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const locked lock(mutex);
    finish(known(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    const locked lock(mutex);
    const std::shared_ptr<moment> until = event->last;
    tg__emulated_stream *from = event->stream;
    if (until != nullptr)
        tg__enqueue(stream, [=]() {
            if (!until->over) /* if its stream was destroyed, it is */
                finish(known(from), until.get());
        });
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new tg__emulated_event;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const locked lock(mutex);
    const std::shared_ptr<moment> now = std::make_shared<moment>();
    event->last = now;
    event->stream = known(stream);
    tg__enqueue(stream, [=]() { now->over = true; });
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const locked lock(mutex);
    if (event->last != nullptr && !event->last->over)
        finish(known(event->stream), event->last.get());
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    const locked lock(mutex);
    finish_all();
    return cudaSuccess;
}
}
