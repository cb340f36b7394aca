#include "codec/block/block_grid.h"
#include "base/mem.h"

enum { LEAST_SIDE = 16 }; /* smaller divisors would make tiny blocks */

size_t tg__block_side(size_t d)
{
    for (size_t side = TG__MIN(d, (size_t)TG__BLOCK_SIDE); side > 0; side--)
        if (d % side == 0)
            return side < LEAST_SIDE && d > TG__BLOCK_SIDE ? TG__BLOCK_SIDE : side;
    return 1;
}

tg__grid tg__grid_make(size_t rows, size_t cols, size_t keep)
{
    return (tg__grid){.rows = rows,
                      .cols = cols,
                      .height = tg__block_side(rows),
                      .width = tg__block_side(cols),
                      .keep = keep};
}

size_t tg__grid_across(const tg__grid *g)
{
    return (g->cols + g->width - 1) / g->width;
}

size_t tg__grid_blocks(const tg__grid *g)
{
    return (g->rows + g->height - 1) / g->height * tg__grid_across(g);
}

static unsigned index_bits(size_t n)
{
    unsigned bits = 0;
    while ((size_t)1 << bits < n)
        bits++;
    return bits;
}

static tg__block shape(const tg__grid *g, size_t height, size_t width)
{
    const size_t n = height * width, keep = TG__MIN(g->keep, n);
    return (tg__block){
        .height = height, .width = width, .keep = keep, .bits = keep == n ? 0 : index_bits(n)};
}

tg__block tg__grid_block(const tg__grid *g, size_t i)
{
    const size_t across = tg__grid_across(g);
    const size_t row = i / across * g->height, col = i % across * g->width;
    tg__block b = shape(g, TG__MIN(g->height, g->rows - row), TG__MIN(g->width, g->cols - col));
    b.row = row;
    b.col = col;
    return b;
}

size_t tg__grid_kept_before(const tg__grid *g, size_t i, size_t *index_bits_p)
{
    const size_t down = g->rows / g->height, wide = g->cols / g->width;
    const size_t below = g->rows % g->height, beside = g->cols % g->width;
    const size_t band = i / tg__grid_across(g), in_band = i % tg__grid_across(g);
    const size_t whole = TG__MIN(band, down), last = band - whole;
    const struct {
        size_t count;
        tg__block b;
    } kinds[] = {{whole * wide, shape(g, g->height, g->width)},
                 {beside > 0 ? whole : 0, shape(g, g->height, beside)},
                 {last * wide, shape(g, below, g->width)},
                 {beside > 0 ? last : 0, shape(g, below, beside)},
                 {in_band, shape(g, band < down ? g->height : below, g->width)}};
    size_t kept = 0, bits = 0;
    for (size_t k = 0; k < TG_COUNT(kinds); k++) {
        kept += kinds[k].count * kinds[k].b.keep;
        bits += kinds[k].count * kinds[k].b.keep * kinds[k].b.bits;
    }
    *index_bits_p = bits;
    return kept;
}

size_t tg__grid_kept(const tg__grid *g, size_t *index_bits_p)
{
    return tg__grid_kept_before(g, tg__grid_blocks(g), index_bits_p);
}
