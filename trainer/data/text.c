/* A text file, read character by character. */
#include "trainer/data/data.h"
#include "trainer/data/packed.h"
#include "telegrad/tools.h"
#include <string.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)1 << 30) /* bytes */
#define CODES 0x110000

/* Fill tokens (len) with the codes of the characters; *count_p is their number. */
static tg_status read_codes(const char *path, const uint8_t *text, size_t len, bool bytes,
                            int32_t *tokens, size_t *count_p)
{
    size_t count = 0;
    for (size_t at = 0; at < len;) {
        uint32_t code = text[at];
        const size_t step = bytes ? 1 : tg_utf8_decode((const char *)text + at, len - at, &code);
        if (step == 0)
            return tg_fail(TG_E_CORRUPT,
                           "%s: byte %zu is 0x%02x, which is not UTF-8: unit=bytes takes any byte "
                           "as a character",
                           path, at, text[at]);
        tokens[count++] = (int32_t)code;
        at += step;
    }
    *count_p = count;
    return TG_OK;
}

/* Replace codes by numbers from 0, in the order of the codes. */
static tg_status renumber(int32_t *tokens, size_t count, size_t *vocabulary_p)
{
    int32_t largest = 0, *number;
    size_t vocabulary = 0;
    for (size_t i = 0; i < count; i++)
        largest = tokens[i] > largest ? tokens[i] : largest;
    TG_TRY(tg_alloc((size_t)largest + 1, sizeof *number, &number));
    for (size_t i = 0; i < count; i++)
        number[tokens[i]] = 1;
    for (int32_t code = 0; code <= largest; code++) {
        if (number[code])
            number[code] = (int32_t)vocabulary++;
    }
    for (size_t i = 0; i < count; i++)
        tokens[i] = number[tokens[i]];
    free(number);
    *vocabulary_p = vocabulary;
    return TG_OK;
}

static tg_status copy(const int32_t *tokens, size_t count, data_part *part)
{
    *part = (data_part){.count = count};
    TG_TRY(tg_alloc(count, sizeof *tokens, &part->tokens));
    memcpy(part->tokens, tokens, count * sizeof *tokens);
    return TG_OK;
}

/* tokens (len): scratch */
static tg_status cut(const char *path, const uint8_t *text, size_t len, double split, bool bytes,
                     int32_t *tokens, data_part parts[2], size_t *vocabulary_p)
{
    size_t count = 0, vocabulary;
    TG_TRY(read_codes(path, text, len, bytes, tokens, &count));
    const size_t train = (size_t)(split * (double)count);
    if (train < 2 || count - train < 2)
        return tg_fail(TG_E_ARG,
                       "%s: split=%g of %zu characters leaves %zu and %zu: allowed: 2 and more in "
                       "each part",
                       path, split, count, train, count - train);
    TG_TRY(renumber(tokens, count, &vocabulary));
    TG_TRY(copy(tokens, train, &parts[0]));
    const tg_status status = copy(tokens + train, count - train, &parts[1]);
    if (status != TG_OK) {
        data_part_free(&parts[0]);
        return status;
    }
    *vocabulary_p = vocabulary;
    return TG_OK;
}

tg_status text_read(const char *path, double split, bool bytes, data_part parts[2],
                    size_t *vocabulary_p)
{
    uint8_t *text;
    size_t len;
    int32_t *tokens = NULL;
    TG_TRY(packed_load(path, TEXT_MAX, &text, &len));
    tg_status status = tg_alloc(len, sizeof *tokens, &tokens);
    if (status == TG_OK)
        status = cut(path, text, len, split, bytes, tokens, parts, vocabulary_p);
    free(text);
    free(tokens);
    return status;
}

/* ---- the sets -------------------------------------------------------------------------------- */

static bool present(const char *path, const tg_spec *spec)
{
    (void)spec;
    return access(path, R_OK) == 0;
}

static tg_status load(train_data *d, const tg_spec *spec, const char *path)
{
    const bool bytes = strcmp(tg_spec_word(spec, "unit"), "bytes") == 0;
    return text_read(path, tg_spec_real(spec, "split"), bytes, d->part, &d->vocabulary);
}

static const tg_key keys[] = {
    {.name = "split",
     .type = TG_KEY_REAL,
     .def = "0.9",
     .min = 0,
     .min_open = true,
     .max = 1,
     .help = "share trained on, from the start; the rest is the test text"},
    {.name = "unit",
     .type = TG_KEY_CHOICE,
     .def = "characters",
     .choices = "characters|bytes",
     .help = "what a token is; characters are those of UTF-8"},
    {.name = NULL},
};

static const tg_entry text_entry = {
    .name = "text",
    .summary = "any text file, by characters",
    .source = "",
    .keys = keys,
};

static const tg_entry shakespeare = {
    .name = "shakespeare",
    .summary = "tiny Shakespeare, 1.1 million characters of plays",
    .source = "Karpathy 2015, char-rnn",
    .keys = keys,
};

const data_set data_text = {
    .entry = &text_entry,
    .path_key = "file",
    .wants = "no file named",
    .unit = TRAIN_CHARACTERS,
    .present = present,
    .load = load,
};

const data_set data_shakespeare = {
    .entry = &shakespeare,
    .path_key = "file",
    .place = "tiny-shakespeare/input.txt",
    .wants = "such file",
    .unit = TRAIN_CHARACTERS,
    .present = present,
    .load = load,
};
