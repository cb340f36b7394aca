/* Template of pack_*.c. The including file defines put_group and get_group: tg__group_put and
 * tg__group_get of a whole group. */

static inline void pack_plane(uint8_t *bytes, const int8_t *codes, size_t m, unsigned w,
                              unsigned at)
{
    const size_t group = TG__PACK_BLOCK / w;
    size_t e = 0;
    for (; e + group <= m; e += group, bytes += 64)
        put_group(bytes, codes + e, w, at);
    if (e < m)
        tg__group_put(bytes, codes + e, m - e, w, at);
}

static inline void unpack_plane(int8_t *codes, const uint8_t *bytes, size_t m, unsigned w,
                                unsigned at, bool last)
{
    const size_t group = TG__PACK_BLOCK / w;
    size_t e = 0;
    for (; e + group <= m; e += group, bytes += 64)
        get_group(codes + e, bytes, w, at, last);
    if (e < m)
        tg__group_get(codes + e, bytes, m - e, w, at, last);
}

/* Run the statement for each plane of w bits, from bit `at` on, of each block: the m codes from
 * `begin` on. One loop per width, so that widths and shifts are constants. */
#define EACH_PLANE(statement)                                            \
    do {                                                                 \
        for (size_t begin = 0; begin < n; begin += TG__PACK_BLOCK) {     \
            const size_t m = TG__MIN(n - begin, (size_t)TG__PACK_BLOCK); \
            unsigned at = 0;                                             \
            PLANE(4, statement)                                          \
            PLANE(2, statement)                                          \
            PLANE(1, statement)                                          \
        }                                                                \
    } while (0)
#define PLANE(bits, statement)             \
    if (width & (bits)) {                  \
        const unsigned w = (bits);         \
        statement;                         \
        bytes += tg__plane_bytes(m, bits); \
        at += w;                           \
    }

static inline void pack_blocks(uint8_t *bytes, const int8_t *codes, size_t n, const unsigned width)
{
    EACH_PLANE(pack_plane(bytes, codes + begin, m, w, at));
}

static inline void unpack_blocks(int8_t *codes, const uint8_t *bytes, size_t n,
                                 const unsigned width)
{
    EACH_PLANE(unpack_plane(codes + begin, bytes, m, w, at, (width & (w - 1)) == 0));
}

#define WIDTH(w, call)        \
    case w:                   \
        call(to, from, n, w); \
        break;
#define EACH_WIDTH(call)         \
    switch (width) {             \
        WIDTH(1, call)           \
        WIDTH(2, call)           \
        WIDTH(3, call)           \
        WIDTH(4, call)           \
        WIDTH(5, call)           \
        WIDTH(6, call)           \
        WIDTH(7, call)           \
    default:                     \
        if (n > 0)               \
            memcpy(to, from, n); \
    }

static void pack(uint8_t *to, const int8_t *from, size_t n, unsigned width)
{
    EACH_WIDTH(pack_blocks)
}

static void unpack(int8_t *to, const uint8_t *from, size_t n, unsigned width)
{
    EACH_WIDTH(unpack_blocks)
}

static void fill(tg__kernels *table)
{
    table->pack = pack;
    table->unpack = unpack;
}
