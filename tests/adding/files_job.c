/* A transport between processes: every message is a file in a folder that all ranks see. Its table
 * uses public headers only; the end of the file makes it one of the command's.
 *
 * FILES_FOLDER, FILES_RANK and FILES_SIZE in the environment say that a process is a rank. A file
 * SENDER-RECEIVER-TAG-NUMBER is one message, the NUMBERth of its sender, receiver and tag; its name
 * appears when it is complete. A file left-RANK says that a rank has left. */
#include "command/job/transports.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_MOST = 256, PAUSE_NS = 200000, STREAMS = 4096 };
enum { OVER, SENT, RECEIVING }; /* request.word[0] */

typedef struct stream {
    int peer;
    uint32_t tag;
    uint64_t number[2]; /* of the next message received, and sent */
} stream;

typedef struct files {
    tg_transport base;
    char folder[PATH_MOST / 2];
    bool is_shut;
    size_t nstreams;
    stream streams[STREAMS];
} files;

static files *self(tg_transport *t)
{
    return t->impl;
}

static tg_status check(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                       const tg_request *req)
{
    if (self(t)->is_shut)
        return tg_fail(TG_E_STATE, "this rank has left");
    if (peer < 0 || peer >= t->size || peer == t->rank || tag >> 28 || (!buf && len > 0) || !req)
        return tg_fail(TG_E_ARG, "peer=%d tag=%u: not a message of rank %d", peer, tag, t->rank);
    return TG_OK;
}

static bool has_left(tg_transport *t, int rank)
{
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/left-%d", self(t)->folder, rank);
    return access(path, F_OK) == 0;
}

static tg_status next_number(files *f, int peer, uint32_t tag, bool sends, uint64_t *number_p)
{
    size_t i = 0;
    while (i < f->nstreams && (f->streams[i].peer != peer || f->streams[i].tag != tag))
        i++;
    if (i == STREAMS)
        return tg_fail(TG_E_NOMEM, "more than %d pairs of peer and tag", STREAMS);
    if (i == f->nstreams)
        f->streams[f->nstreams++] = (stream){.peer = peer, .tag = tag};
    *number_p = f->streams[i].number[sends]++;
    return TG_OK;
}

static void message_path(char path[PATH_MOST], const files *f, int from, int to, uint32_t tag,
                         uint64_t number)
{
    snprintf(path, PATH_MOST, "%s/%d-%d-%u-%llu", f->folder, from, to, tag,
             (unsigned long long)number);
}

static tg_status write_file(const char *path, const void *buf, size_t len)
{
    char partial[PATH_MOST + 8];
    snprintf(partial, sizeof partial, "%s.part", path);
    FILE *file = fopen(partial, "wb");
    bool ok = file && fwrite(buf ? buf : "", 1, len, file) == len;
    ok = file && fclose(file) == 0 && ok && rename(partial, path) == 0;
    return ok ? TG_OK : tg_fail(TG_E_IO, "%s: %s", path, strerror(errno));
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    char path[PATH_MOST];
    uint64_t number;
    tg_status status = check(t, peer, tag, buf, len, req);
    if (status == TG_OK && has_left(t, peer))
        status = tg_fail(TG_E_PEER, "rank %d has left", peer);
    if (status == TG_OK)
        status = next_number(self(t), peer, tag, true, &number);
    if (status != TG_OK)
        return status;
    message_path(path, self(t), t->rank, peer, tag, number);
    *req = (tg_request){{SENT, len}};
    return write_file(path, buf, len);
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    uint64_t number;
    tg_status status = check(t, peer, tag, buf, cap, req);
    if (status == TG_OK)
        status = next_number(self(t), peer, tag, false, &number);
    if (status == TG_OK)
        *req =
            (tg_request){{RECEIVING, cap, (uint64_t)(uintptr_t)buf, (uint64_t)peer, tag, number}};
    return status;
}

/* Read the message, if it is there, into the request's buffer. */
static tg_status take(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    const int peer = (int)req->word[3];
    const bool left = has_left(t, peer); /* before the look for what it sent earlier */
    char path[PATH_MOST];
    struct stat about;
    message_path(path, self(t), peer, t->rank, (uint32_t)req->word[4], req->word[5]);
    if (stat(path, &about) != 0)
        return left ? tg_fail(TG_E_PEER, "rank %d has left", peer) : TG_OK;
    FILE *file = fopen(path, "rb");
    const size_t len = (size_t)about.st_size;
    const bool fits = len <= req->word[1];
    const bool ok = file && (!fits || fread((void *)(uintptr_t)req->word[2], 1, len, file) == len);
    if (file)
        (void)fclose(file);
    (void)unlink(path);
    if (!fits)
        return tg_fail(TG_E_CORRUPT, "%zu bytes from rank %d: allowed: %zu", len, peer,
                       (size_t)req->word[1]);
    *done_p = ok;
    *len_p = len;
    return ok ? TG_OK : tg_fail(TG_E_IO, "%s: not readable", path);
}

static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    tg_status status = TG_OK;
    if (self(t)->is_shut)
        return tg_fail(TG_E_STATE, "this rank has left");
    *done_p = false;
    if (req->word[0] == OVER)
        return tg_fail(TG_E_ARG, "the request has already completed");
    if (req->word[0] == SENT) {
        *done_p = true;
        *len_p = (size_t)req->word[1];
    } else {
        status = take(t, req, done_p, len_p);
    }
    if (*done_p || status != TG_OK)
        req->word[0] = OVER;
    return status;
}

static tg_status poll_files(tg_transport *t, int64_t deadline_ns)
{
    if (self(t)->is_shut)
        return tg_fail(TG_E_STATE, "this rank has left");
    if (deadline_ns > t->clock->now_ns(t->clock->arg))
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return TG_OK;
}

static bool shut(tg_transport *t)
{
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/left-%d", self(t)->folder, t->rank);
    self(t)->is_shut = true;
    (void)write_file(path, NULL, 0);
    return true;
}

static void destroy(tg_transport *t)
{
    (void)shut(t);
    free(self(t));
}

static const tg_transport_ops ops = {.struct_size = sizeof ops,
                                     .name = "files",
                                     .post_send = post_send,
                                     .post_recv = post_recv,
                                     .test = test,
                                     .poll = poll_files,
                                     .shut = shut,
                                     .destroy = destroy};

/* ---- as one of the command's ----------------------------------------------------------------- */

static const char *started(const struct net_options *net)
{
    (void)net;
    return getenv("FILES_FOLDER") ? "with FILES_FOLDER" : NULL;
}

static tg_status open_job(const struct job_call *call, int *rank_p, int *size_p)
{
    (void)call;
    const char *rank = getenv("FILES_RANK"), *size = getenv("FILES_SIZE");
    if (!rank || !size)
        return tg_fail(TG_E_PEER, "FILES_FOLDER requires FILES_RANK and FILES_SIZE");
    *rank_p = atoi(rank);
    *size_p = atoi(size);
    return TG_OK;
}

static void close_job(tg_status status)
{
    (void)status;
}

static tg_status connect_job(tg_transport **t_p)
{
    files *f = calloc(1, sizeof *f);
    if (!f)
        return tg_fail(TG_E_NOMEM, "out of memory: a transport");
    snprintf(f->folder, sizeof f->folder, "%s", getenv("FILES_FOLDER"));
    f->base = (tg_transport){.struct_size = sizeof f->base,
                             .ops = &ops,
                             .impl = f,
                             .any_thread = true,
                             .clock = tg_clock_monotonic()};
    *t_p = &f->base;
    return open_job(NULL, &f->base.rank, &f->base.size);
}

static tg_status find_nodes(int *nodes)
{
    memset(nodes, 0, (size_t)atoi(getenv("FILES_SIZE")) * sizeof *nodes);
    return TG_OK;
}

const struct job_transport job_transport_files = {.name = "files",
                                                  .about = "processes with a common folder",
                                                  .requires = "FILES_FOLDER in the environment",
                                                  .count = "FILES_SIZE=N",
                                                  .started = started,
                                                  .alone = true,
                                                  .open = open_job,
                                                  .close = close_job,
                                                  .connect = connect_job,
                                                  .nodes = find_nodes};
