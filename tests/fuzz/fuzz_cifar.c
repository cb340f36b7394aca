/* Any bytes as a file of CIFAR-10's binary version: refused by name, or whole records whose labels
 * are in range. */
#include "fuzz_file.h"
#include "fuzz_tools.h"
#include "trainer/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    data_part part = {.count = 0};
    tg_status status = cifar_append(fuzz_file(0, data, size), &part);
    fuzz_refused(status);
    for (size_t i = 0; i < part.count; i++)
        if (part.labels[i] >= CIFAR_CLASSES)
            abort();
    if (status == TG_OK) {
        volatile uint8_t last =
            part.images[part.count * CIFAR_SIDE * CIFAR_SIDE * 3 - 1]; /* is there */
        (void)last;
    }
    data_part_free(&part);
    return 0;
}
