/* Chosen on LeNet-5 and MNIST: docs/methods.md. */
#include "cli/method_rate.h"
#include <stddef.h>
#include <string.h>

static const method_rate rates[] = {
    {.method = "signsgd", .factor = 0.02, .low = 0.005, .high = 0.1, .plain = false},
    {.method = "signum", .factor = 0.02, .low = 0.005, .high = 0.1, .plain = true},
    {.method = "randomk", .factor = 1, .low = 0.1, .high = 4, .plain = true},
};

const method_rate *method_rate_of(const char *method)
{
    const size_t len = strcspn(method, ":");
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (strlen(rates[i].method) == len && strncmp(rates[i].method, method, len) == 0)
            return &rates[i];
    return NULL;
}
