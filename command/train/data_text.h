/* Texts about data sets. */
#ifndef TG_CLI_DATA_TEXT_H
#define TG_CLI_DATA_TEXT_H

#include "command/output/format.h"
#include "trainer/data/data.h"

/* "images", "characters", "words" */
const char *data_text_unit(train_unit unit);

/* The loss per token (in nats) in the usual unit: ", perplexity 118.10" for words, ", 2.121 bits a
 * character" for characters, "" for images. */
format_text data_text_per_token(train_unit unit, double loss);

/* The loss in nats, and per token in the usual unit: "4.7715, perplexity 118.10" for words,
 * "1.4700, 2.121 bits a character" for characters, "0.2500" for images; "not finite". */
format_text data_text_loss(train_unit unit, double loss);

/* "97.25 %"; "-" if not finite. */
format_text data_text_accuracy(double accuracy);

/* "28 x 28 x 1, 10 classes", "33,278 different words" */
format_text data_text_input(train_unit unit, const model_input *in);

/* "60,000 to train, 10,000 to test" */
format_text data_text_counts(const train_data *d);

#endif
