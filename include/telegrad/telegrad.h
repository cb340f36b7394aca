/* telegrad/telegrad.h - everything but MPI. */
#ifndef TELEGRAD_H
#define TELEGRAD_H
#include "telegrad/base.h"
#include "telegrad/codec.h"
#include "telegrad/compat.h"
#include "telegrad/optimizer.h"
#include "telegrad/reducer.h"
#include "telegrad/registry.h"
#include "telegrad/session.h"
#include "telegrad/simulate.h"
#include "telegrad/transport.h"
#include "telegrad/weights.h"
#endif
