/* Any bytes as the files of a data set. They are refused by name, or give as many images as labels,
 * with all labels in range.
 *
 *     0  4  length of the labels' file       4     the labels' file, then the images' */
#include "fuzz_tools.h"
#include "trainer/data/data.h"
#include <unistd.h>

enum { HEAD = 4 };

static void write_file(const char *dir, const char *name, const uint8_t *bytes, size_t len)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0)
        abort();
}

static char dir[] = "/dev/shm/telegrad-fuzz-XXXXXX";

static void clean_up(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", dir);
    unlink(path);
    rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made && (!mkdtemp(dir) || atexit(clean_up) != 0))
        abort();
    made = true;
    if (size < HEAD)
        return 0;
    size_t labels = TG__MIN((size_t)tg__get32(data), size - HEAD);
    write_file(dir, "t10k-labels-idx1-ubyte", data + HEAD, labels);
    write_file(dir, "t10k-images-idx3-ubyte", data + HEAD + labels, size - HEAD - labels);
    data_part part;
    tg_status status = idx_read(dir, "t10k", &part);
    fuzz_refused(status);
    if (status != TG_OK)
        return 0;
    for (size_t i = 0; i < part.count; i++)
        if (part.labels[i] >= DATA_CLASSES)
            abort();
    volatile uint8_t last = part.images[part.count * DATA_PIXELS - 1]; /* must exist */
    (void)last;
    data_part_free(&part);
    return 0;
}
