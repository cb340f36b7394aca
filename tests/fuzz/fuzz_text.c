/* Any bytes as texts. They are refused by name, or give tokens below the vocabulary, all of it
 * used.
 *
 *     0  1  bit 0: bytes, not UTF-8; bit 1: words, whose test text is the last 16th
 *     1  1  share for training, in 1/255                      2     the text */
#include "fuzz_file.h"
#include "fuzz_tools.h"
#include "trainer/data/data.h"

static void check(const data_part parts[2], size_t vocabulary)
{
    bool *seen = calloc(vocabulary, 1);
    size_t different = 0;
    if (!seen)
        abort();
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < parts[i].count; at++) {
            const int32_t token = parts[i].tokens[at];
            if (token < 0 || (size_t)token >= vocabulary)
                abort();
            different += !seen[token];
            seen[token] = true;
        }
    }
    if (different != vocabulary)
        abort();
    free(seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    data_part parts[2];
    size_t vocabulary;
    tg_status status;
    if (size < 2)
        return 0;
    const uint8_t how = data[0];
    const double split = data[1] / 255.0;
    data += 2;
    size -= 2;
    if (how & 2) {
        const size_t test = size / 16;
        const char *path = fuzz_file(0, data, size - test);
        status = words_read(path, fuzz_file(1, data + size - test, test), parts, &vocabulary);
    } else {
        status = text_read(fuzz_file(0, data, size), split, how & 1, parts, &vocabulary);
    }
    fuzz_refused(status);
    if (status != TG_OK)
        return 0;
    check(parts, vocabulary);
    data_part_free(&parts[0]);
    data_part_free(&parts[1]);
    return 0;
}
