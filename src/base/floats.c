#include "base/floats.h"
#include <stdint.h>
#if defined __x86_64__
#include <xmmintrin.h>
#endif

static bool are_default(void)
{
#if defined __x86_64__
    /* printf and strtod ask it for the rounding mode. Initialised for MSan, which does not see what
     * an instruction writes. */
    uint16_t x87 = 0;
    __asm__ volatile("fnstcw %0" : "+m"(x87));
    return (_mm_getcsr() & 0xffc0) == 0x1f80 && (x87 & 0x0f3f) == 0x033f;
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control == 0;
#else
    return fegetround() == FE_TONEAREST;
#endif
}

void tg__floats_enter(tg__host_floats *host)
{
    host->differ = !are_default();
    if (!host->differ)
        return;
    fegetenv(&host->env);
    fesetenv(FE_DFL_ENV);
#if defined __x86_64__
    _mm_setcsr(0x1f80); /* not every C library turns off flushing to zero */
#elif defined __aarch64__
    __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0))); /* glibc's keeps some bits */
#endif
}

void tg__floats_leave(tg__host_floats *host)
{
    if (host->differ)
        fesetenv(&host->env);
}
