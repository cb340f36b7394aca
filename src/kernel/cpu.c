/* Determines which instruction sets this CPU and its operating system offer, and chooses a table.
 *
 * On x86, CPUID and XGETBV are queried directly: a set counts only if the system also saves its
 * registers. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "kernel/variants.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *const tg__kernel_levels[] = {"ref", "avx2", "avx512", "neon", NULL};

enum { LEVELS_MAX = 3 }; /* for one kind of CPU */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tg__kernels tables[LEVELS_MAX];
static int best;         /* the highest level that this CPU and this build have */
static int chosen;       /* the level in use */
static char unknown[64]; /* the value of TG_CPU if it is not available, else "" */

static void fill_ref(tg__kernels *table)
{
    tg__templates_ref(table);
    tg__select_ref(table);
    tg__twobit_ref(table);
    tg__half_ref(table);
    tg__quant_ref(table);
    tg__pack_ref(table);
    tg__skinny_ref(table);
    tg__crc_ref(table);
}

#if defined(__x86_64__)
#include <cpuid.h>

enum { REF, AVX2, AVX512 };

static bool has(unsigned have, unsigned want)
{
    return (have & want) == want;
}

static int cpu_level(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_SSE4_2 | bit_POPCNT))
        return REF;
    unsigned saved, high; /* XCR0: the registers that the system saves */
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, 0x6)) /* XMM, YMM */
        return REF;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !has(c, bit_LZCNT))
        return REF;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, bit_AVX2 | bit_BMI | bit_BMI2))
        return REF;
#if defined(TG_AVX512_EMULATED) /* tests/avx512: no instruction of that level is executed */
    return AVX512;
#endif
    if (!has(saved, 0xe6) || /* also opmask, ZMM 0-15, ZMM 16-31 */
        !has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return AVX2;
    return AVX512;
}

static void fill_avx2(tg__kernels *table)
{
    tg__templates_avx2(table);
    tg__select_avx2(table);
    tg__twobit_avx2(table);
    tg__half_avx2(table);
    tg__crc_avx2(table);
    tg__quant_avx2(table);
    tg__pack_avx2(table);
}

static void fill_avx512(tg__kernels *table)
{
    tg__templates_avx512(table);
    tg__select_avx512(table);
    tg__twobit_avx512(table);
    tg__half_avx512(table);
    tg__quant_avx512(table);
}

static void (*const fill[])(tg__kernels *) = {fill_ref, fill_avx2, fill_avx512};
static const char *const names[] = {"ref", "avx2", "avx512"};
static const char *const lists[] = {"ref", "ref, avx2", "ref, avx2, avx512"};

#elif defined(__aarch64__) && defined(__ARM_NEON)

enum { REF, NEON }; /* every such CPU has NEON */

static int cpu_level(void)
{
    return NEON;
}

static void fill_neon(tg__kernels *table)
{
    tg__templates_neon(table);
    tg__select_neon(table);
    tg__twobit_neon(table);
    tg__half_neon(table);
}

static void (*const fill[])(tg__kernels *) = {fill_ref, fill_neon};
static const char *const names[] = {"ref", "neon"};
static const char *const lists[] = {"ref", "ref, neon"};

#else

enum { REF };

static int cpu_level(void)
{
    return REF;
}

static void (*const fill[])(tg__kernels *) = {fill_ref};
static const char *const names[] = {"ref"};
static const char *const lists[] = {"ref"};

#endif

static int level_named(const char *name)
{
    for (int level = REF; level <= best; level++)
        if (strcmp(name, names[level]) == 0)
            return level;
    return -1;
}

static void choose(void)
{
    best = chosen = cpu_level();
    for (int level = REF; level <= best; level++) {
        if (level > REF)
            tables[level] = tables[level - 1];
        tables[level].level = names[level];
        fill[level](&tables[level]);
    }
    const char *wish = getenv("TG_CPU");
    if (!wish || !*wish)
        return;
    if (level_named(wish) >= 0) {
        chosen = level_named(wish);
    } else {
        strncpy(unknown, wish, sizeof(unknown) - 1);
    }
}

const tg__kernels *tg__kernel(void)
{
    (void)pthread_once(&once, choose);
    return &tables[chosen];
}

tg_status tg__kernel_check(void)
{
    (void)tg__kernel();
    if (!*unknown)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED, "TG_CPU=%s: this CPU and build have: %s", unknown,
                   lists[best]);
}

const tg__kernels *tg__kernel_level(const char *name)
{
    (void)tg__kernel();
    int level = level_named(name);
    return level < 0 ? NULL : &tables[level];
}

const char *tg_cpu_level(void)
{
    return tg__kernel()->level;
}
