/* Reducers whose vectors are on a device. */
#include "engine/reducer_impl.h"
#include "base/mem.h"

#include <stdlib.h>

tg_status tg__reducer_open(tg_reducer *r, int device)
{
    if (tg__device() == NULL)
        return tg_fail(TG_E_UNSUPPORTED,
                       "tg_reducer_create: config->memory=TG_CUDA: no GPU is attached: call "
                       "tg_cuda_attach first (libtelegrad-cuda)");
    const tg_status status = tg__device()->queue_create(device, &r->gpu.queue);
    r->gpu.failed = status == TG_E_STATE;
    r->gpu.device = device;
    return status;
}

void tg__reducer_gpu_tell(tg_reducer *r, tg_status status)
{
    if (r->gpu.queue != NULL)
        tg__engine_give_up(r->engine, status, r->transport->rank);
}

void tg__reducer_close(tg_reducer *r)
{
    if (r->gpu.queue == NULL)
        return;
    tg__device()->release(r->gpu.queue, r->gpu.f32);
    tg__device()->queue_destroy(r->gpu.queue);
}

/* Room for an f32 vector on the device. */
static tg_status have_f32(tg_reducer *r)
{
    if (r->gpu.f32 != NULL)
        return TG_OK;
    return tg__device()->alloc(r->gpu.queue, r->n * sizeof(float), (void **)&r->gpu.f32);
}

/* The caller's gradient as f32, on the device. */
static tg_status widened(tg_reducer *r, const tg_array *g, const float **wide_p)
{
    *wide_p = g->data;
    if (g->dtype == TG_F32)
        return TG_OK;
    TG_TRY(have_f32(r));
    TG_TRY(tg__device()->widen(r->gpu.queue, r->gpu.f32, g->data, g->dtype, r->n));
    *wide_p = r->gpu.f32;
    return TG_OK;
}

tg_status tg__reducer_gpu_begin(tg_reducer *r, const tg_array *g, const float **g_p)
{
    const tg_device_ops *ops = tg__device();
    const float *on_device;
    TG_TRY(ops->wait_for(r->gpu.queue, g->stream));
    TG_TRY(widened(r, g, &on_device));
    *g_p = on_device;
    if (r->gpu.native)
        return TG_OK;
    if (r->wide == NULL)
        TG_TRY(tg_alloc(r->n, sizeof *r->wide, &r->wide));
    TG_TRY(ops->copy_out(r->gpu.queue, r->wide, on_device, r->n * sizeof(float)));
    *g_p = r->wide;
    return ops->finish(r->gpu.queue);
}

tg_status tg__reducer_gpu_deliver(tg_reducer *r, const float *mean)
{
    const tg_device_ops *ops = tg__device();
    const size_t bytes = r->n * sizeof(float);
    float *f32 = r->mean;
    if (r->dtype != TG_F32) {
        TG_TRY(have_f32(r));
        f32 = r->gpu.f32;
    }
    TG_TRY(ops->wait_for(r->gpu.queue, r->gpu.stream)); /* it may still read what mean holds */
    if (!r->gpu.native)
        TG_TRY(ops->copy_in(r->gpu.queue, f32, mean, bytes));
    else if (r->dtype == TG_F32)
        TG_TRY(ops->copy(r->gpu.queue, f32, mean, bytes));
    if (r->dtype != TG_F32)
        TG_TRY(ops->narrow(r->gpu.queue, r->mean, r->gpu.native ? mean : f32, r->dtype, r->n));
    return ops->signal(r->gpu.queue, r->gpu.stream);
}

float tg__reducer_gpu_element(const tg_reducer *r, size_t bad)
{
    const tg_device_ops *ops = tg__device();
    float value = 0;
    tg_status status = ops->copy_out(r->gpu.queue, &value, r->op.task.g + bad, sizeof value);
    if (status == TG_OK)
        status = ops->finish(r->gpu.queue);
    return value;
}

tg_status tg__reducer_gpu_show(tg_reducer *r)
{
    return r->gpu.native ? tg__on_device_show(r->method) : TG_OK;
}
