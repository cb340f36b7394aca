/* Keys that strategies with an outer step of Nesterov's have in common. */
#ifndef TG_STRATEGY_OUTER_KEYS_H
#define TG_STRATEGY_OUTER_KEYS_H

#define TG__OUTER_EVERY                                                          \
    {                                                                            \
        .name = "every", .type = TG_KEY_INT, .def = "100", .min = 1, .max = 1e9, \
        .help = "own steps in a round (500 in the paper)"                        \
    }
#define TG__OUTER_NESTEROV                                                                       \
    {.name = "lr", .type = TG_KEY_REAL, .def = "0.7", .max = 1e30, .help = "of the outer step"}, \
    {                                                                                            \
        .name = "momentum", .type = TG_KEY_REAL, .def = "0.9", .max = 1,                         \
        .help = "of the outer step; 0 with lr=1: local SGD"                                      \
    }

#endif
