/* Testing: the part shared by training and evaluation, and the evaluation of given weights. */
#include "trainer/loop/run.h"
#include <math.h>

tg_status run_test(model *m, loader *test, uint64_t batches, const train_eval_job *job,
                   run_tested *sums)
{
    size_t left = job && job->samples ? job->samples : SIZE_MAX;
    for (uint64_t i = 0; i < batches && left > 0; i++) {
        model_batch batch;
        model_result result;
        if (job && job->stop && *job->stop)
            return tg_fail(TG_E_STATE, "interrupted");
        TG_TRY(loader_next(test, &batch));
        batch.count = batch.count < left ? batch.count : left;
        left -= batch.count;
        TG_TRY(model_forward(m, &batch, &(model_pass){0}, NULL, &result));
        sums->loss += result.loss;
        sums->correct += (double)result.correct;
        sums->labels += (double)result.labels;
        if (job && job->outputs)
            TG_TRY(job->outputs(job->arg, model_outputs(m), batch.count, m->input.classes,
                                job->samples));
    }
    return TG_OK;
}

void run_tested_means(const run_tested *sums, double *accuracy_p, double *loss_p)
{
    const double loss = sums->loss / sums->labels;
    const bool result = isfinite(loss);
    *accuracy_p = result ? sums->correct / sums->labels : (double)NAN;
    *loss_p = result ? loss : (double)INFINITY;
}

/* Outputs may be finite although weights are not: a ReLU makes 0 of NaN. */
static tg_status check_finite(const model *m, const tg_weights *w)
{
    for (size_t k = 0; k < m->ntensors; k++) {
        const float *v = m->params + m->tensors[k].offset;
        for (size_t i = 0; i < m->tensors[k].n; i++)
            if (!isfinite(v[i]))
                return tg_fail(TG_E_NONFINITE,
                               "weights %s: tensor \"%s\": element %zu is %g: allowed: finite "
                               "numbers",
                               tg_weights_path(w), m->tensors[k].name, i,
                               isnan(v[i]) ? (double)NAN : (double)v[i]);
    }
    return TG_OK;
}

static tg_status evaluate(const train_eval_job *job, model *m, loader *test,
                          train_eval_info *info_p)
{
    const int64_t start = tg_now_ns(tg_clock_monotonic());
    run_tested sums = {0};
    double accuracy, loss;
    TG_TRY(run_read_weights(m, job->weights));
    TG_TRY(check_finite(m, job->weights));
    TG_TRY(run_test(m, test, loader_steps_per_epoch(test), job, &sums));
    run_tested_means(&sums, &accuracy, &loss);
    *info_p = (train_eval_info){
        .accuracy = accuracy,
        .loss = loss,
        .labels = (size_t)sums.labels,
        .params = m->params_total,
        .seconds = (double)(tg_now_ns(tg_clock_monotonic()) - start) / 1e9,
    };
    return TG_OK;
}

/* Check which part of the test set is asked for. Only images have parts: a text is tested from
 * start to end. */
static tg_status check(const train_eval_job *job, const train_data *data)
{
    const size_t all = train_data_test(data);
    const bool images = train_data_unit(data) == TRAIN_IMAGES;
    if (!images && (job->samples > 0 || job->outputs))
        return tg_fail(TG_E_ARG,
                       "%s with data set %s: texts are always tested whole; use it with images",
                       job->samples > 0 ? "samples" : "logits", train_data_name(data));
    if (job->samples > all)
        return tg_fail(TG_E_ARG, "--samples %zu: allowed: 1 to %zu, all that there are to test",
                       job->samples, all);
    return TG_OK;
}

tg_status train_evaluate(const train_eval_job *job, const train_data *data, train_eval_info *info_p)
{
    train_eval_job whole = *job;
    const size_t all = train_data_test(data);
    loader_config config = {.batch = job->batch < all ? job->batch : all, .world = 1};
    model *m = NULL;
    loader *test = NULL;
    TG_TRY(check(job, data));
    TG_TRY(run_context(job->model, job->context, train_data_unit(data), &config.context));
    if (train_data_unit(data) == TRAIN_IMAGES && job->samples == 0)
        whole.samples = train_data_test(data);
    model_input in = train_data_input(data, config.context);
    in.bf16 = job->precision == TRAIN_BF16;
    TG_TRY(model_create(job->model, &in, config.batch, 0, &m));
    config.stream = m->nstate > 0;
    tg_status status = loader_create(data, DATA_TEST, &config, &test);
    if (status == TG_OK)
        status = evaluate(&whole, m, test, info_p);
    loader_destroy(test);
    model_destroy(m);
    return status;
}
