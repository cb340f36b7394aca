/* telegrad/telegrad.h - all headers of libtelegrad. mpi.h, net.h and cuda.h belong to libraries of
 * their own. */
#ifndef TELEGRAD_H
#define TELEGRAD_H
#include "telegrad/base.h"
#include "telegrad/clock.h"
#include "telegrad/codec.h"
#include "telegrad/compat.h"
#include "telegrad/costs.h"
#include "telegrad/device.h"
#include "telegrad/external.h"
#include "telegrad/optimizer.h"
#include "telegrad/random.h"
#include "telegrad/reducer.h"
#include "telegrad/registry.h"
#include "telegrad/server.h"
#include "telegrad/session.h"
#include "telegrad/simulate.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"
#include "telegrad/trace.h"
#include "telegrad/transport.h"
#include "telegrad/weights.h"
#endif
