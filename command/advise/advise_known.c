#include "command/advise/advise_known.h"
#include "command/job/spec_words.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct known_runs lenet_methods = {
    "LeNet-5 on MNIST, 4 workers, 3 epochs, mean of three seeds", "lenet5", "test accuracy",
    "98.95 %", "docs/results/methods-mnist.md"};
static const struct known_runs lenet_defaults = {"LeNet-5 on MNIST, 4 workers, one epoch, one seed",
                                                 "lenet5", "test accuracy, %", "98.26",
                                                 "docs/results/defaults.md"};
static const struct known_runs lenet_delays = {
    "LeNet-5 on MNIST, 4 workers, 10 epochs, no momentum, two seeds", "lenet5", "test accuracy",
    "99.10, 99.02 %", "docs/results/delays.md"};
static const struct known_runs resnet_compression = {
    "ResNet-20 on CIFAR-10, 4 workers, 10 epochs, bf16, one seed", "resnet20", "test accuracy",
    "85.14 %", "docs/results/compression.md"};
static const struct known_runs resnet_defaults = {
    "ResNet-20 on CIFAR-10, 4 workers, 4 epochs, one seed (dense: the mean of two)", "resnet20",
    "test accuracy", "76.80 %", "docs/results/front.md"};
static const struct known_runs resnet_delays = {
    "ResNet-20 on CIFAR-10, 4 workers, 10 epochs, one seed", "resnet20", "test accuracy", "84.74 %",
    "docs/results/delays.md"};
static const struct known_runs mlp_untuned = {
    "MLP on Fashion-MNIST, 3 workers, 3 epochs, untuned, one seed", "mlp", "test accuracy",
    "86.15 %", "docs/results/untuned.md"};
static const struct known_runs lstm_defaults = {
    "LSTM on the characters of tiny Shakespeare, 4 workers, 3 epochs of SGD, one seed", "lstm",
    "test loss, nats", "1.565", "docs/results/front.md"};
static const struct known_runs gpt_rounds = {
    "GPT on tiny Shakespeare, 4 workers, 12 epochs, bf16, one seed", "gpt", "test loss, nats",
    "1.535", "docs/results/delays.md"};
static const struct known_runs gpt_delays = {
    "GPT on tiny Shakespeare, 4 workers, 12 epochs, one seed", "gpt", "test loss, nats", "1.524",
    "docs/results/delays.md"};

static const struct known_runs gpt_updates = {
    "GPT on tiny Shakespeare, 4 workers, 12 epochs of AdamW, one seed (dense: three runs)", "gpt",
    "test loss, nats", "1.515, 1.499 and 1.504", "docs/results/updates.md"};

static const struct known_runs gpt_defaults = {
    "GPT on tiny Shakespeare, 4 workers, 4 epochs of AdamW, one seed", "gpt", "test loss, nats",
    "1.693", "docs/results/front.md"};

/* advise_known prefers the earlier of two rows that say equally much: runs at today's defaults, or
 * the longer ones, come first. */
static const struct known_row rows[] = {
    {&lenet_methods, "ssgd", "fp16", "98.93 %"},
    {&lenet_methods, "ssgd", "qsgd:bits=4", "98.98 %"},
    {&lenet_methods, "updates", "2bit:lookahead=0", "98.90 %"},
    {&lenet_methods, "updates", "1bit:weights=no", "98.97 %"},
    {&lenet_methods, "updates", "topk:density=0.01,lookahead=0", "98.94 %"},
    {&lenet_methods, "ssgd", "dgc:density=0.001,warmup=1ep,lookahead=0", "98.94 %"},
    {&lenet_defaults, "ssgd", "powersgd", "98.28"},
    {&lenet_defaults, "dga:delay=1", "dense", "98.33"},
    {&lenet_defaults, "local:every=8", "dense", "98.25"},
    {&lenet_defaults, "streaming:every=100", "dense", "97.94"},
    {&lenet_delays, "od", "dense", "99.10, 99.04 %"},
    {&lenet_delays, "ssgd", "2bit:lookahead=0", "99.04, 99.03 %"},
    {&lenet_delays, "cd:k=2", "2bit:lookahead=0", "99.13, 99.03 %"},
    {&lenet_delays, "cd:k=5", "2bit:lookahead=0", "99.10, 99.02 %"},
    {&lenet_delays, "cd:k=10", "2bit:lookahead=0", "99.10, 99.04 %"},
    {&lenet_delays, "cd:k=20", "2bit:lookahead=0", "99.12, 99.04 %"},
    {&resnet_defaults, "updates", "2bit", "76.11 %"},
    {&resnet_defaults, "updates", "topk:density=0.01", "75.21 %"},
    {&resnet_defaults, "updates", "1bit", "74.81 %"},
    {&resnet_defaults, "updates", "efsign", "74.30 %"},
    {&resnet_defaults, "ssgd", "qsgd", "75.29 %"},
    {&resnet_defaults, "ssgd", "powersgd", "73.41 %"},
    {&resnet_defaults, "updates", "adacomp", "73.79 %"},
    {&resnet_defaults, "ssgd", "dgc:density=0.001", "71.55 %"},
    {&resnet_defaults, "cd:k=5", "2bit:lookahead=0", "75.05 %"},
    {&resnet_defaults, "od", "dense", "76.51 %"},
    {&resnet_defaults, "dga:delay=4", "dense", "72.14 %"},
    {&resnet_defaults, "local:every=8", "dense", "71.85 %"},
    {&resnet_defaults, "streaming:every=100", "dense", "66.08 %"},
    {&resnet_compression, "ssgd", "dgc:density=0.001,warmup=2ep,lookahead=0", "82.64 %"},
    {&resnet_compression, "ssgd", "dgc:density=0.001,warmup=0,lookahead=0", "80.29 %"},
    {&resnet_compression, "ssgd", "topk:density=0.001,lookahead=0", "74.81 %"},
    {&resnet_delays, "od", "dense", "84.48 %"},
    {&resnet_delays, "dga:delay=5", "dense", "83.02 %"},
    {&resnet_delays, "dga:delay=10", "dense", "80.71 %"},
    {&resnet_delays, "dga:delay=15", "dense", "77.10 %"},
    {&resnet_delays, "dga:delay=20", "dense", "72.46 %"},
    {&mlp_untuned, "ssgd", "fp16", "85.23 %"},
    {&mlp_untuned, "ssgd", "topk:density=0.01,lookahead=0", "85.01 %"},
    {&mlp_untuned, "ssgd", "dgc:density=0.001,warmup=1ep,lookahead=0", "87.01 %"},
    {&mlp_untuned, "ssgd", "2bit:lookahead=0", "83.73 %"},
    {&lstm_defaults, "updates", "2bit", "1.576"},
    {&lstm_defaults, "updates", "1bit", "1.568"},
    {&lstm_defaults, "updates", "efsign", "1.577"},
    {&lstm_defaults, "updates", "topk:density=0.01", "1.590"},
    {&lstm_defaults, "updates", "adacomp", "1.594"},
    {&lstm_defaults, "ssgd", "qsgd", "1.578"},
    {&lstm_defaults, "ssgd", "powersgd", "1.626"},
    {&lstm_defaults, "cd:k=5", "2bit", "1.559"},
    {&lstm_defaults, "od", "dense", "1.563"},
    {&lstm_defaults, "dga:delay=4", "dense", "1.667"},
    {&lstm_defaults, "local:every=8", "dense", "1.584"},
    {&lstm_defaults, "streaming:every=100", "dense", "1.636"},
    {&gpt_rounds, "local:every=30", "dense", "1.634"},
    {&gpt_rounds, "streaming:every=30,fragments=3,overlap=3,warmup=0,rescale=no", "qsgd:bits=4",
     "1.590"},
    {&gpt_delays, "dga:delay=20,every=5", "dense", "1.770"},
    {&gpt_updates, "cd:k=5", "2bit:lookahead=0", "1.512"},
    {&gpt_updates, "updates", "2bit", "1.507"},
    {&gpt_updates, "updates", "1bit", "1.529"},
    {&gpt_updates, "updates", "topk:density=0.01", "1.530"},
    {&gpt_updates, "updates", "adacomp", "1.544"},
    {&gpt_defaults, "ssgd", "qsgd", "1.686"},
    {&gpt_defaults, "ssgd", "powersgd", "1.945"},
    {&gpt_defaults, "cd:k=5", "2bit", "1.752"},
    {&gpt_defaults, "od", "dense", "1.712"},
    {&gpt_defaults, "dga:delay=4", "dense", "1.865"},
    {&gpt_defaults, "local:every=8", "dense", "1.819"},
    {&gpt_defaults, "streaming:every=100", "dense", "1.958"},
};

const char advise_known_async[] =
    "Asynchronous steps cost accuracy: 8 workers ended 6.6 to 8.5 points (ResNet-20) and 0.2 nats "
    "(GPT) behind training in step, more than the time was worth (docs/results/async-accuracy.md).";

bool advise_costs_nothing(const advice_way *way)
{
    return way->family == ADVICE_SSGD && way->method < ADVICE_CODED;
}

static bool is_dense(const char *method)
{
    return spec_same_name(method, "dense");
}

/* `updates` takes the place of ssgd if the optimizer has momentum or adapts its steps. */
static bool is_synchronous(const char *strategy)
{
    return strcmp(strategy, "ssgd") == 0 || strcmp(strategy, "updates") == 0;
}

/* The first number in a strategy's spec; 0: none. */
static double number_of(const char *strategy)
{
    const char *equals = strchr(strategy, '=');
    return equals ? strtod(equals + 1, NULL) : 0;
}

/* How much a row says about this way of training; 0: nothing. */
static double telling(const struct known_row *r, const advice_way *way)
{
    const bool method = spec_same_name(r->method, way->method_text);
    if (way->family == ADVICE_SSGD || !spec_same_name(r->strategy, way->strategy))
        return method && !is_dense(r->method) && is_synchronous(r->strategy) ? 3 : 0;
    const double own = number_of(r->strategy);
    const double far = way->number > 0 && own > 0 ? fabs(log2(own / way->number)) : 0;
    return (method ? 6 : 2) + 1 / (1 + far);
}

size_t advise_known(const char *model, const advice_way *way, const struct known_row **row)
{
    double value[ADVISE_KNOWN_MOST];
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double v = spec_same_name(rows[i].runs->model, model) ? telling(&rows[i], way) : 0;
        size_t at = count;
        while (at > 0 && v > value[at - 1])
            at--;
        if (v <= 0 || at == ADVISE_KNOWN_MOST)
            continue;
        count += count < ADVISE_KNOWN_MOST;
        for (size_t k = count - 1; k > at; k--) {
            value[k] = value[k - 1];
            row[k] = row[k - 1];
        }
        value[at] = v;
        row[at] = &rows[i];
    }
    return count;
}

bool advise_is_known(const char *model, const advice_way *way, bool method)
{
    const char *name = method ? way->method_text : way->strategy;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (spec_same_name(rows[i].runs->model, model) && telling(&rows[i], way) > 0 &&
            spec_same_name(method ? rows[i].method : rows[i].strategy, name))
            return true;
    return false;
}
