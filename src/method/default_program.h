/* The one-round program: compensate, encode, tell the feedback, exchange. */
#ifndef TG_DEFAULT_PROGRAM_H
#define TG_DEFAULT_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__default_program;

#endif
