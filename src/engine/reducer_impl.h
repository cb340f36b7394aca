/* What a reducer consists of: for reducer.c, which runs it, and reducer_memory.c. */
#ifndef TG_ENGINE_REDUCER_IMPL_H
#define TG_ENGINE_REDUCER_IMPL_H

#include "telegrad/reducer.h"
#include "engine/engine.h"
#include "exchange/nodes.h"
#include "method/on_device.h"

/* A reducer whose vectors are on a device. */
typedef struct tg__reducer_gpu {
    tg_queue *queue; /* NULL: they are on the host */
    int device;
    bool native;  /* the method works there; else `wide` is a copy on the host */
    float *f32;   /* (n) on the device: a gradient of 16 bits, or a mean to be rounded */
    bool failed;  /* a call of it did, so the other ranks must know */
    void *stream; /* of the mean */
} tg__reducer_gpu;

struct tg_reducer {
    tg_transport *transport;
    tg__engine *engine;
    tg__pool *pool;
    tg__nodes *nodes; /* NULL: one level */
    tg__state *state;
    tg__method *method;
    const volatile sig_atomic_t *stop;
    size_t n;
    uint64_t step;
    double ratio;
    tg__op op;
    bool running;
    bool delivered; /* op's mean is out, and the method has neither absorbed nor undone it */
    tg_dtype dtype; /* of the caller's vectors */
    float *wide;    /* (n) its gradient, if dtype has 16 bits; NULL before the first such */
    void *mean;
    tg__reducer_gpu gpu;
    void (*on_done)(void *arg, tg_status status);
    void *arg;
};

/* End the next operation if *config.stop is set. Each operation gets its second from the moment at
 * which it is seen to wait. */
void tg__reducer_watch_stop(tg_reducer *r);

/* For vectors on a device (reducer_device.c). open: create the queue. begin: *g_p is what the
 * method reads, on the device or a copy on the host. deliver: put the mean of the last operation
 * where the caller wants it. */
TG_NODISCARD tg_status tg__reducer_open(tg_reducer *r, int device);
void tg__reducer_close(tg_reducer *r);
TG_NODISCARD tg_status tg__reducer_gpu_begin(tg_reducer *r, const tg_array *g, const float **g_p);
TG_NODISCARD tg_status tg__reducer_gpu_deliver(tg_reducer *r, const float *mean);
/* If the vectors are on a device: tell the other ranks that this one has failed. */
void tg__reducer_gpu_tell(tg_reducer *r, tg_status status);
/* The element `bad` of the gradient that has just been refused. */
float tg__reducer_gpu_element(const tg_reducer *r, size_t bad);
/* The slots may be read and written. */
TG_NODISCARD tg_status tg__reducer_gpu_show(tg_reducer *r);

/* The mean of the last operation counts as applied from now on. */
void tg__reducer_settle(tg_reducer *r);

#endif
