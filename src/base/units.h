/* Quantities as people write them: a number, blanks or none, a unit.
 *
 * Rates in bits a second: bit, bit/s, bps, b/s, after k m g t (powers of 1000) or ki mi gi ti (of
 * 1024). Rates in bytes a second: B/s, Bps, byte/s, after the same. A capital B is a byte and a
 * small b a bit; all other letters may be in either case. MBPS, in capitals alone, could be both
 * and is refused; so are Mb and MB, which are no rates.
 *
 * Times: us, ms, s, min, in either case.
 *
 * Sizes in bytes: no unit, or B. k m g t and ki mi gi ti are powers of 1024; kB MB GB TB are powers
 * of 1000, in either case. */
#ifndef TG_BASE_UNITS_H
#define TG_BASE_UNITS_H

#include "telegrad/base.h"

#define TG__UNITS_RATE "rates as 20mbit, 1.5 Gbit/s, 100Mbps, in bytes 12.5MB/s with a capital B"
#define TG__UNITS_TIME "times as 250us, 20ms, 1.5 s, 2min"

/* text (len). False, and the result untouched, if it is no such quantity; what is too large for it
 * too. A rate is in bits a second, a time in nanoseconds; the number is not negative.
 * Threads any */
bool tg__rate_parse(const char *text, size_t len, double *bps_p);
bool tg__time_parse(const char *text, size_t len, double *ns_p);
bool tg__bytes_parse(const char *text, size_t len, double *bytes_p);

#endif
