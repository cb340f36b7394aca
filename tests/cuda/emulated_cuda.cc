/* Fibers that run the threads of a block. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to change stacks */
#include "emulated_cuda.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{
enum { STACK = 128 * 1024, THREADS_MAX = 1024, WARP = 32 };

/* A fiber runs one thread after another. It begins by its context; from then on it is entered and
 * left by jumps, which, unlike swapcontext, need no system calls. */
struct fiber {
    ucontext_t context;
    jmp_buf place;
    dim3 index;
    bool begun, done;
};

struct warp {
    uint64_t given[WARP], taken[WARP][WARP]; /* taken: by each lane, in its last operation */
    unsigned arrived, turn[WARP];            /* turn: operations of a lane that are over */
};

/* What a host thread runs at present. */
struct block {
    fiber *fibers;
    char *stacks;
    warp warps[THREADS_MAX / WARP];
    unsigned threads, current, waiting, turn, alive;
    int votes, count, vote, total;
    bool moved; /* some fiber has done something since the flag was cleared */
    jmp_buf scheduler;
    void (*body)(void *arg);
    void *arg;
};
thread_local block *own;

/* Let the others run. */
void yield(void)
{
    if (_setjmp(own->fibers[own->current].place) == 0)
        _longjmp(own->scheduler, 1);
}

void enter(void)
{
    for (;;) {
        own->body(own->arg);
        own->fibers[own->current].done = true;
        own->alive--;
        own->moved = true;
        yield();
    }
}

/* Run a fiber until it yields. */
void resume(fiber *f)
{
    if (_setjmp(own->scheduler) != 0)
        return;
    if (f->begun)
        _longjmp(f->place, 1);
    f->begun = true;
    setcontext(&f->context);
}

unsigned alive_lanes(unsigned w)
{
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < WARP && w * WARP + lane < own->threads; lane++)
        lanes |= (unsigned)!own->fibers[w * WARP + lane].done << lane;
    return lanes;
}

void prepare(unsigned threads)
{
    if (own == nullptr) {
        own = static_cast<block *>(calloc(1, sizeof(block)));
        own->fibers = static_cast<fiber *>(calloc(THREADS_MAX, sizeof(fiber)));
        own->stacks =
            static_cast<char *>(mmap(nullptr, (size_t)STACK * THREADS_MAX, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (own->stacks == MAP_FAILED)
            abort();
    }
    own->threads = own->alive = threads;
    own->waiting = 0;
    for (unsigned w = 0; w * WARP < threads; w++) {
        own->warps[w].arrived = 0;
        memset(own->warps[w].turn, 0, sizeof own->warps[w].turn);
    }
    for (unsigned t = 0; t < threads; t++) {
        fiber *f = &own->fibers[t];
        f->done = false;
        f->index = dim3(t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y);
        if (f->begun)
            continue;
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = own->stacks + (size_t)STACK * t;
        f->context.uc_stack.ss_size = STACK;
        f->context.uc_link = nullptr;
        makecontext(&f->context, enter, 0);
    }
}

/* In which order n things run: a GPU promises none. From one on, up or down, all around. */
struct order {
    unsigned n, at;
    bool down;

    explicit order(unsigned n_) : n(n_)
    {
        static thread_local uint64_t state = 88172645463325252u;
        state ^= state << 13; /* xorshift */
        state ^= state >> 7;
        state ^= state << 17;
        at = static_cast<unsigned>(state >> 20) % n;
        down = state >> 60 & 1;
    }
    unsigned next(void)
    {
        const unsigned now = at;
        at = down ? (at + n - 1) % n : (at + 1) % n;
        return now;
    }
};

void run_block(void)
{
    prepare(blockDim.x * blockDim.y * blockDim.z);
    while (own->alive > 0) {
        order threads(own->threads);
        own->moved = false;
        for (unsigned k = 0; k < own->threads; k++) {
            const unsigned t = threads.next();
            if (own->fibers[t].done)
                continue;
            own->current = t;
            threadIdx = own->fibers[t].index;
            resume(&own->fibers[t]);
        }
        if (!own->moved) {
            fprintf(stderr, "emulated CUDA: block %u: threads wait for others that never come\n",
                    blockIdx.x);
            abort();
        }
    }
}
} // namespace

void tg__emulate(dim3 blocks, dim3 threads, void (*body)(void *arg), void *arg)
{
    const size_t count = (size_t)threads.x * threads.y * threads.z;
    if (count == 0 || count > THREADS_MAX || blocks.x == 0 || blocks.y == 0 || blocks.z == 0) {
        fprintf(stderr, "emulated CUDA: %u blocks of %zu threads: not allowed\n", blocks.x, count);
        abort();
    }
    gridDim = blocks;
    blockDim = threads;
    prepare(0);
    own->body = body;
    own->arg = arg;
    for (unsigned z = 0; z < blocks.z; z++)
        for (unsigned y = 0; y < blocks.y; y++) {
            order all(blocks.x);
            for (unsigned k = 0; k < blocks.x; k++) {
                blockIdx = dim3(all.next(), y, z);
                run_block();
            }
        }
}

unsigned tg__lane(void)
{
    return own->current % WARP;
}

void __syncthreads(void)
{
    (void)__syncthreads_count(0);
}

int __syncthreads_count(int x)
{
    const unsigned turn = own->turn;
    own->count += x != 0;
    own->waiting++;
    own->moved = true;
    while (own->turn == turn) {
        if (own->waiting >= own->alive) { /* whoever sees it first */
            own->total = own->count;
            own->count = 0;
            own->waiting = 0;
            own->turn++;
            own->moved = true;
        } else {
            yield();
        }
    }
    return own->total;
}

int __syncthreads_or(int x)
{
    return __syncthreads_count(x) != 0;
}

const uint64_t *tg__warp_share(unsigned mask, uint64_t value)
{
    const unsigned w = own->current / WARP, lane = own->current % WARP;
    warp *self = &own->warps[w];
    const unsigned turn = self->turn[lane];
    self->given[lane] = value;
    self->arrived |= 1u << lane;
    own->moved = true;
    while (self->turn[lane] == turn) { /* the lanes of other masks go their own way */
        const unsigned wanted = mask & alive_lanes(w);
        if ((self->arrived & wanted) == wanted) {
            for (unsigned other = 0; other < WARP; other++) {
                if (!(wanted >> other & 1))
                    continue;
                memcpy(self->taken[other], self->given, sizeof self->given);
                self->turn[other]++;
            }
            self->arrived &= ~wanted;
            own->moved = true;
        } else {
            yield();
        }
    }
    return self->taken[lane];
}

void __syncwarp(unsigned mask)
{
    (void)tg__warp_share(mask, 0);
}
