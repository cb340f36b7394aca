/* Keys that several methods share, so that they read the same in all of them. */
#ifndef TG_METHOD_KEYS_H
#define TG_METHOD_KEYS_H

#include "base/keys.h"
#include "method/method.h"
#include "wire/index.h"

/* The key `exchange` of a method that sends `sends` (TG__SUMS_*, see exchange.h), with the exchange
 * that it uses by default. Choices and help follow from what the exchanges can sum. They are empty
 * until tg__method_entries is called. */
enum { TG__CHOICES_BYTES = 128, TG__HELP_BYTES = 640 };
extern char tg__exchange_choices[TG__SUMS_ALL + 1][TG__CHOICES_BYTES];
extern char tg__exchange_help[TG__SUMS_ALL + 1][TG__HELP_BYTES];
#define TG__KEY_EXCHANGE(sends, usual) \
    TG__CHOICE("exchange", usual, tg__exchange_choices[sends], tg__exchange_help[sends])
#define TG__KEY_EXCHANGE_DENSE TG__KEY_EXCHANGE(TG__SUMS_DENSE, "direct")
#define TG__KEY_EXCHANGE_CODED TG__KEY_EXCHANGE(TG__SUMS_CODED, "allgather")
#define TG__KEY_EXCHANGE_TWOWAY TG__KEY_EXCHANGE(TG__SUMS_CODED | TG__SUMS_TWOWAY, "allgather")
/* Fill them; called by tg__method_entries. */
void tg__exchange_keys(void);

#define TG__KEY_DECAY(text)            \
    TG__KEY(REAL, "decay", text, 0, 1, \
            "share of the old residual that stays in each exchange; 1: all", .min_open = true)

#define TG__KEY_FEEDBACK_OF_ROUNDING                \
    TG__CHOICE("feedback", "none", "none|residual", \
               "residual: remember the rounding error and send it later")

#define TG__KEY_DENSITY(text)                                                         \
    TG__KEY(REAL, "density", text, 0, 1, "fraction of the bucket's elements to send", \
            .min_open = true)

#define TG__KEY_WARMUP(text)                                                                  \
    TG__KEY(DURATION, "warmup", text, 0, 1e9,                                                 \
            "the density falls to its value over this many epochs (4ep), with one stage per " \
            "epoch, or over this many steps, in four stages; the default is at most a fifth " \
            "of the run",                                                                     \
            .share = 0.2)

#define TG__KEY_SCOPE                              \
    TG__CHOICE("scope", "bucket", "bucket|tensor", \
               "tensor: every tensor sends this fraction of its own elements, at least one")

#define TG__KEY_VALUES(text)                                                                  \
    TG__CHOICE("values", text, "f32|fp16|int8|4bit|2bit|1bit",                                \
               "format of the values (int8 and smaller: in blocks of 512, each with its own " \
               "scale); the rounding error stays in the memory")

#define TG__KEY_RESCALE(text) \
    TG__FLAG("rescale", text, \
             "multiply the residual by eta_old / eta_new when the learning rate changes")

/* For methods with velocity feedback. */
#define TG__KEYS_VELOCITY                                                                \
    TG__KEY(REAL, "momentum", "0.9", 0, 0.999999,                                        \
            "of the velocity; the default is the optimizer's, if that sets one"),        \
        TG__FLAG("nesterov", "no", "Nesterov momentum"),                                 \
        TG__FLAG("masking", "yes", "momentum factor masking: clear u where v was sent"), \
        TG__KEY(REAL, "clip", "0", 0, 1e30,                                              \
                "scale each tensor's gradient to norm <= clip/sqrt(P); 0: off")

#endif
