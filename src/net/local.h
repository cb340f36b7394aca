/* Memory that two processes of one machine share: a ring of bytes for each direction. Bytes are
 * copied into it and out of it, not through the kernel.
 *
 * Offering  One end makes the memory (memfd_create, sealed: it cannot shrink) and two bells
 *           (pipes), and tells the other, over their connection, its process and descriptor and a
 *           random number. The other opens them below /proc/PID/fd. The kernel allows that to
 *           processes of the same user. Opened memory counts only if it is sealed, belongs to this
 *           user, and begins with that number and the connection's ports.
 * Rings     One end writes a ring, the other reads it. Each keeps its own position to itself, takes
 *           the other's from the memory once, and checks it. Whatever the other does to the memory
 *           changes only the bytes that it sends.
 * Bells     Who finds a ring empty, or full, says so in the memory, and is woken by a byte in its
 *           pipe. Whoever is awake is not rung for. */
#ifndef TG_NET_LOCAL_H
#define TG_NET_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tg__local tg__local;

typedef struct tg__local_offer {
    uint32_t pid, fd; /* the process that offers, and its descriptor of the memory */
    uint64_t number;
} tg__local_offer;

/* Tests and benchmarks: nothing is shared in this process. */
extern bool tg__local_off;

/* Offer memory.
 * fd     of the connection
 * bytes  of each ring, a power of two
 * Returns NULL if the connection's ends are not of one machine, or this system lacks what it
 * takes. */
tg__local *tg__local_make(int fd, size_t bytes, tg__local_offer *offer);
/* The other end has it open: nobody else can open it any more. */
void tg__local_settle(tg__local *l);
/* Open the memory that the other end of a connection offers. Returns NULL if it is not that. */
tg__local *tg__local_open(int fd, const tg__local_offer *offer);
/* NULL is fine. What was written can still be read at the other end. */
void tg__local_close(tg__local *l);

/* The descriptor to poll: readable when there is something to read, or room, after there was none.
 * Then silence it, and look. */
int tg__local_bell(const tg__local *l);
void tg__local_silence(tg__local *l);

/* Returns how many bytes were written, or read; 0: the bell will ring; -1: positions in the memory
 * cannot be. */
ptrdiff_t tg__local_write(tg__local *l, const void *bytes, size_t len);
ptrdiff_t tg__local_read(tg__local *l, void *bytes, size_t len);
/* The connection has ended: what the other end has written so far is all there is to read. */
void tg__local_end(tg__local *l);
/* Read and forget what has come. */
void tg__local_forget(tg__local *l);

#endif
