/* Testing: the part that training and evaluation share, and evaluation of given weights. */
#include "train/run.h"
#include "train/train_util.h"
#include <stdlib.h>

tg_status run_test(model *m, const train_data *data, float *x, int32_t *labels, size_t begin,
                   size_t end, const train_eval_job *job, run_tested *sums)
{
    for (size_t at = begin; at < end; at += m->batch) {
        const size_t count = end - at < m->batch ? end - at : m->batch;
        const model_batch part = {.x = x, .labels = labels, .count = count};
        model_result result;
        for (size_t i = 0; i < count; i++)
            data_sample(data, DATA_TEST, at + i, x + i * DATA_PIXELS, &labels[i]);
        TG_TRY(model_forward(m, &part, &(model_pass){0}, NULL, &result));
        sums->loss += result.loss;
        sums->correct += (double)result.correct;
        sums->labels += (double)result.labels;
        if (job && job->outputs)
            TG_TRY(job->outputs(job->arg, model_outputs(m), count, m->input.classes, end - begin));
    }
    return TG_OK;
}

static tg_status evaluate(const train_eval_job *job, const train_data *data, model *m, float *x,
                          int32_t *labels, train_eval_info *info_p)
{
    const size_t all = train_data_test(data), samples = job->samples ? job->samples : all;
    const int64_t start = tg_now_ns(tg_clock_monotonic());
    run_tested sums = {0};
    if (samples > all)
        return tg_fail(TG_E_ARG, "samples=%zu: allowed: 1 to %zu, the test set", samples, all);
    TG_TRY(run_read_weights(m, job->weights));
    TG_TRY(run_test(m, data, x, labels, 0, samples, job, &sums));
    *info_p = (train_eval_info){
        .accuracy = sums.correct / sums.labels,
        .loss = sums.loss / sums.labels,
        .samples = samples,
        .params = m->params_total,
        .seconds = (double)(tg_now_ns(tg_clock_monotonic()) - start) / 1e9,
    };
    return TG_OK;
}

tg_status train_evaluate(const train_eval_job *job, const train_data *data, train_eval_info *info_p)
{
    const model_input in = {DATA_SIDE, DATA_SIDE, 1, 0, DATA_CLASSES};
    model *m;
    float *x = NULL;
    int32_t *labels = NULL;
    TG_TRY(model_create(job->model, &in, job->batch, 0, &m));
    tg_status status = train_alloc(job->batch * DATA_PIXELS, sizeof *x, &x);
    if (status == TG_OK)
        status = train_alloc(job->batch, sizeof *labels, &labels);
    if (status == TG_OK)
        status = evaluate(job, data, m, x, labels, info_p);
    free(x);
    free(labels);
    model_destroy(m);
    return status;
}
