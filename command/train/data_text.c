#include "command/train/data_text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *data_text_unit(train_unit unit)
{
    static const char *const names[] = {
        [TRAIN_IMAGES] = "images", [TRAIN_CHARACTERS] = "characters", [TRAIN_WORDS] = "words"};
    return names[unit];
}

format_text data_text_per_token(train_unit unit, double loss)
{
    format_text f = {""};
    if (unit == TRAIN_WORDS && isfinite(loss))
        snprintf(f.text, sizeof f.text, ", perplexity %.2f", exp(loss));
    if (unit == TRAIN_CHARACTERS && isfinite(loss))
        snprintf(f.text, sizeof f.text, ", %.3f bits a character", loss / log(2));
    return f;
}

format_text data_text_loss(train_unit unit, double loss)
{
    format_text f = format_loss(loss);
    const size_t len = strlen(f.text);
    snprintf(f.text + len, sizeof f.text - len, "%s", data_text_per_token(unit, loss).text);
    return f;
}

format_text data_text_accuracy(double accuracy)
{
    format_text f = {"-"};
    if (isfinite(accuracy))
        snprintf(f.text, sizeof f.text, "%.2f %%", 100 * accuracy);
    return f;
}

format_text data_text_input(train_unit unit, const model_input *in)
{
    format_text f;
    if (unit == TRAIN_IMAGES)
        snprintf(f.text, sizeof f.text, "%zu x %zu x %zu, %zu classes", in->height, in->width,
                 in->channels, in->classes);
    else
        snprintf(f.text, sizeof f.text, "%.16s different %s", format_count(in->classes).text,
                 data_text_unit(unit));
    return f;
}

format_text data_text_counts(const train_data *d)
{
    format_text f;
    snprintf(f.text, sizeof f.text, "%.13s to train, %.13s to test",
             format_count(train_data_train(d)).text, format_count(train_data_test(d)).text);
    return f;
}
