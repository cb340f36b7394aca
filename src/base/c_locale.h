/* The C locale, for a short while and for this thread only: numbers have a decimal point, and
 * patterns match bytes, whatever locale the program chose. */
#ifndef TG_BASE_C_LOCALE_H
#define TG_BASE_C_LOCALE_H

#include "telegrad/base.h"
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

/* Enter the C locale. Keeps errno.
 * Returns  what tg__c_locale_leave takes, in the same thread */
locale_t tg__c_locale_enter(void);
/* Return to the locale that the thread had before. Keeps errno. */
void tg__c_locale_leave(locale_t before);

/* snprintf and vsnprintf in the C locale. Keep errno. */
int tg__snprintf(char *text, size_t room, const char *format, ...) TG_PRINTF(3, 4);
int tg__vsnprintf(char *text, size_t room, const char *format, va_list args) TG_PRINTF(3, 0);

#endif
