#include "line_table.h"
#include "telegrad/tools.h"

#include <stdlib.h>
#include <string.h>

static size_t spans_of(const tg__line *line, size_t size)
{
    return (line->n + size - 1) / size;
}

static size_t list_spans(const tg__line *line, size_t count, uint32_t size, tg__span *to)
{
    size_t k = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t lo = 0; lo < line[i].n; lo += size)
            to[k++] = (tg__span){.line = (uint32_t)i, .lo = lo};
    return k;
}

/* Where the tables are in one block of memory. */
typedef struct layout {
    size_t sums, chunk, piece, line, below, bytes;
} layout;

static layout layout_of(const tg__lines *l)
{
    layout at = {0};
    at.chunk = at.sums + l->chunks * 2 * sizeof(double);
    at.piece = at.chunk + l->chunks * sizeof(tg__span);
    at.line = at.piece + l->pieces * sizeof(tg__span);
    at.below = at.line + l->count * sizeof(tg__line);
    at.bytes = at.below + l->chunks * sizeof(uint32_t) + 1;
    return at;
}

static tg_status upload(tg_queue *q, const tg__line *line, const layout *at, tg__lines *lines)
{
    char *host;
    TG_TRY(tg_alloc(at->bytes, 1, &host));
    list_spans(line, lines->count, TG__LINE_CHUNK, (tg__span *)(void *)(host + at->chunk));
    list_spans(line, lines->count, TG__LINE_PIECE, (tg__span *)(void *)(host + at->piece));
    memcpy(host + at->line, line, lines->count * sizeof *line);
    tg_status status = tg__gpu_copy_in(q, lines->memory, host, at->bytes);
    if (status == TG_OK)
        status = tg__gpu_finish(q);
    free(host);
    return status;
}

tg_status tg__lines_make(tg_queue *q, tg__line *line, size_t count, tg__lines *lines)
{
    *lines = (tg__lines){.count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        line[i].chunk = lines->chunks;
        lines->chunks += (uint32_t)spans_of(&line[i], TG__LINE_CHUNK);
        lines->pieces += (uint32_t)spans_of(&line[i], TG__LINE_PIECE);
    }
    const layout at = layout_of(lines);
    TG__GPU(cudaMalloc(&lines->memory, at.bytes));
    char *memory = lines->memory;
    lines->sums = (double *)(void *)(memory + at.sums);
    lines->chunk = (tg__span *)(void *)(memory + at.chunk);
    lines->piece = (tg__span *)(void *)(memory + at.piece);
    lines->line = (tg__line *)(void *)(memory + at.line);
    lines->below = (uint32_t *)(void *)(memory + at.below);
    return upload(q, line, &at, lines);
}

void tg__lines_free(tg__lines *lines)
{
    if (lines->memory != NULL)
        (void)cudaFree(lines->memory);
    *lines = (tg__lines){0};
}
