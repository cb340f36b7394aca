/* Keys that several methods share, so that they read the same in all of them. */
#ifndef TG_METHOD_KEYS_H
#define TG_METHOD_KEYS_H

#include "telegrad/spec.h"

/* Parts of the help of every key `exchange`. */
#define TG__EXCHANGE_AUTO "auto: the one predicted to be fastest on the measured network; "
#define TG__EXCHANGE_NONE "none: no exchange, so ranks drift apart"

#define TG__KEY_EXCHANGE_CODED                                                                    \
    {                                                                                             \
        .name = "exchange", .type = TG_KEY_CHOICE, .def = "allgather",                            \
        .choices = "allgather|direct|auto|none",                                                  \
        .help = "allgather: 1 one-way delay; direct: 2, sums are sent as f32; " TG__EXCHANGE_AUTO \
            TG__EXCHANGE_NONE                                                                     \
    }

/* For sparsifiers: sums may be selected from again. */
#define TG__KEY_EXCHANGE_SPARSE                                                                   \
    {                                                                                             \
        .name = "exchange", .type = TG_KEY_CHOICE, .def = "allgather",                            \
        .choices = "allgather|reducescatter|gtopk|direct|auto|none",                              \
        .help =                                                                                   \
            "allgather: 1 one-way delay; reducescatter: 2, owners select from the "               \
            "sums, bytes do not grow with P; gtopk: 2 log2 P, a tree selects; " TG__EXCHANGE_AUTO \
                TG__EXCHANGE_NONE                                                                 \
    }

/* For codecs that round: sums may be rounded as well. */
#define TG__KEY_EXCHANGE_ROUNDED_BY(choice, help_of_choice)                                       \
    {                                                                                             \
        .name = "exchange", .type = TG_KEY_CHOICE, .def = "allgather",                            \
        .choices = "allgather|direct|reducescatter" choice "|auto|none",                          \
        .help = "allgather: 1 one-way delay; direct: 2, sums are sent as f32; reducescatter: 2, " \
                "sums are coded again" help_of_choice "; " TG__EXCHANGE_AUTO TG__EXCHANGE_NONE    \
    }
#define TG__KEY_EXCHANGE_ROUNDED TG__KEY_EXCHANGE_ROUNDED_BY("", "")
#define TG__KEY_EXCHANGE_ROUNDED_OR_RING \
    TG__KEY_EXCHANGE_ROUNDED_BY("|ring", "; ring: 2 (P-1), sums are coded again at every step")

/* For codecs that need whole tensors. */
#define TG__KEY_EXCHANGE_WHOLE(reason)                                              \
    {                                                                               \
        .name = "exchange", .type = TG_KEY_CHOICE, .def = "allgather",              \
        .choices = "allgather|auto|none",                                           \
        .help = "allgather, also with auto, because " reason "; " TG__EXCHANGE_NONE \
    }

#define TG__KEY_DECAY(text)                                                                      \
    {                                                                                            \
        .name = "decay", .type = TG_KEY_REAL, .def = text, .min = 0, .max = 1, .min_open = true, \
        .help = "share of the old residual that stays in each exchange; 1: all"                  \
    }

#define TG__KEY_FEEDBACK_OF_ROUNDING                                                          \
    {                                                                                         \
        .name = "feedback", .type = TG_KEY_CHOICE, .def = "none", .choices = "none|residual", \
        .help = "residual: remember the rounding error and send it later"                     \
    }

#define TG__KEY_DENSITY(text)                                                                      \
    {                                                                                              \
        .name = "density", .type = TG_KEY_REAL, .def = text, .min = 0, .max = 1, .min_open = true, \
        .help = "fraction of the bucket's elements to send"                                        \
    }

#define TG__KEY_WARMUP(text)                                                                      \
    {                                                                                             \
        .name = "warmup", .type = TG_KEY_DURATION, .def = text, .min = 0, .max = 1e9,             \
        .share = 0.2,                                                                             \
        .help = "the density falls to its value over this many epochs (4ep), with one stage per " \
                "epoch, or over this many steps, in four stages; the default is at most a fifth " \
                "of the run"                                                                      \
    }

#define TG__KEY_SCOPE                                                                        \
    {                                                                                        \
        .name = "scope", .type = TG_KEY_CHOICE, .def = "bucket", .choices = "bucket|tensor", \
        .help = "tensor: every tensor sends this fraction of its own elements, at least one" \
    }

#define TG__KEY_VALUES(text)                                                                   \
    {                                                                                          \
        .name = "values", .type = TG_KEY_CHOICE, .def = text,                                  \
        .choices = "f32|fp16|int8|4bit|2bit|1bit",                                             \
        .help = "format of the values (int8 and smaller: in blocks of 512, each with its own " \
                "scale); the rounding error stays in the memory"                               \
    }

#define TG__KEY_RESCALE(text)                                                               \
    {                                                                                       \
        .name = "rescale", .type = TG_KEY_FLAG, .def = text,                                \
        .help = "multiply the residual by eta_old / eta_new when the learning rate changes" \
    }

/* For methods with velocity feedback. */
#define TG__KEYS_VELOCITY                                                                    \
    {.name = "momentum",                                                                     \
     .type = TG_KEY_REAL,                                                                    \
     .def = "0.9",                                                                           \
     .min = 0,                                                                               \
     .max = 0.999999,                                                                        \
     .help = "of the velocity; the default is the optimizer's, if that sets one"},           \
        {.name = "nesterov", .type = TG_KEY_FLAG, .def = "no", .help = "Nesterov momentum"}, \
        {.name = "masking",                                                                  \
         .type = TG_KEY_FLAG,                                                                \
         .def = "yes",                                                                       \
         .help = "momentum factor masking: clear u where v was sent"},                       \
    {                                                                                        \
        .name = "clip", .type = TG_KEY_REAL, .def = "0", .min = 0, .max = 1e30,              \
        .help = "scale each tensor's gradient to norm <= clip/sqrt(P); 0: off"               \
    }

#define TG__KEY_INDEX                                                                    \
    {                                                                                    \
        .name = "index", .type = TG_KEY_CHOICE, .def = "auto",                           \
        .choices = "auto|rice|raw|bitmap|ef", .help = "index coding; auto: the smallest" \
    }

#endif
