/* The door: those who connect to a rank that joins, until they have said who they are.
 *
 * A connection that has not sent a byte only takes a descriptor; one whose first bytes are not
 * those of a greeting is closed. The others shake hands in one of `room` places, each for at least
 * TG__YOUNG_NS once it has sent a whole greeting. Those who wait are asked in by turns: first from
 * the source that has the fewest inside, and of one source the one that has waited longest. When
 * all places are taken, one is put out at random of the source that has most inside, unless the
 * newcomer's own source has more. So a flood from some addresses takes places from itself, and a
 * member of another source gets in, and keeps its place. Those who have proved a key are never put
 * out, and do not count.
 *
 * A source is one of TG__SOURCES classes into which addresses are hashed with a random salt: an
 * IPv4 address, or the first 64 bits of an IPv6 address.
 */
#ifndef TG_NET_DOOR_H
#define TG_NET_DOOR_H

#include "net/caller.h"

#define TG__KNOCKS \
    1024 /* most connections that have not sent a byte; fewer if descriptors are few */
#define TG__HALF_OPEN 64 /* places for handshakes, beside one for each rank */
/* Said to those who take one kind of listener for the other. */
#define TG__NO_SERVER "this is rank 0 of a job with a fixed group, not a parameter server"
#define TG__NO_MEETING "this is a parameter server, not a meeting point"
/* To one that had its key on the list when it shook hands. */
#define TG__TAKEN_OFF "this rank's key was removed from the list of allowed keys"
#define TG__YOUNG_NS INT64_C(100000000)
#define TG__SOURCES 256
#define TG__IP_MAX 46 /* bytes of an IP address as text, with the NUL */

typedef struct tg__knock {
    int fd; /* -1: an empty place */
    int64_t until_ns;
    uint8_t source;
    size_t at;   /* in what was polled */
    bool greets; /* its first bytes are a greeting's; it waits for a place */
    char host[TG__IP_MAX];
} tg__knock;

typedef struct tg__guest {
    tg__caller caller;
    int64_t since_ns;
    uint8_t source;
    char host[TG__IP_MAX];
    int rank;       /* for the door's owner: who it is; 0: not known */
    uint64_t token; /* likewise */
} tg__guest;

typedef struct tg__door {
    int listener; /* borrowed; -1: closed */
    tg__tls *tls;
    bool (*accepts)(void *arg, const tg__public_key *key);
    void *accepts_arg;
    /* A call has failed before the caller's message came. c: NULL: it did not even greet. NULL:
     * nobody wants to know. */
    void (*on_failed)(void *arg, const char *host, const tg__caller *c, const char *why);
    void *on_failed_arg;
    size_t body_max; /* of what they say */
    tg__knock *knock;
    size_t knocks;
    tg__guest *guest; /* (room) caller.state TG__CALLER_NONE: an empty place */
    size_t room;
    int knocking[TG__SOURCES]; /* by address, hashed with the salt */
    uint64_t salt, dice;
    bool few_files;        /* somebody who called could not be let in for lack of descriptors */
    int64_t full_ns;       /* until then nobody is asked in */
    struct pollfd *polled; /* since tg__door_watch */
} tg__door;

/* Open. The listener and tls are borrowed.
 * size    ranks of the job
 * Errors  TG_E_NOMEM, TG_E_IO (no random numbers); tg__door_close is needed all the same */
TG_NODISCARD tg_status tg__door_open(tg__door *d, int listener, tg__tls *tls, int size,
                                     size_t body_max,
                                     bool (*accepts)(void *arg, const tg__public_key *key),
                                     void *accepts_arg);
/* Most descriptors that tg__door_watch writes. */
size_t tg__door_watch_max(const tg__door *d);
/* Write what to wait for. Returns how many; they must stay until tg__door_step. */
size_t tg__door_watch(tg__door *d, struct pollfd *p);
/* After poll(): let in who comes, and put out who fails, takes too long, or finds no memory. Guests
 * may have said their message afterwards. */
void tg__door_step(tg__door *d);
/* "this process may open only 1024 files" */
#define TG__FILES_TEXT 64
const char *tg__files_text(char text[TG__FILES_TEXT]);
/* Zeroed is fine. */
void tg__door_close(tg__door *d);

#endif
