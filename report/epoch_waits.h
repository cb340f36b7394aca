/* Who waited for whom in each epoch of a run, as its records of epochs say. */
#ifndef TG_EPOCH_WAITS_H
#define TG_EPOCH_WAITS_H

#include <jansson.h>

/* Add what the record of an epoch says to *list_p (NULL: nothing so far); of one that says nothing,
 * or without memory, nothing. */
void epoch_waits_add(json_t **list_p, const json_t *record);

/* Epochs that ended after `step` go. list may be NULL. */
void epoch_waits_drop_after(json_t *list, double step);

/* A list by time of {"epochs": how many, "for": [seconds by rank], "by": [seconds by rank]}, at
 * most `most` of them, of several epochs each where there are more; null for fewer than two epochs.
 * Epochs with other numbers of ranks than the last one are left out. */
json_t *epoch_waits_json(const json_t *list, size_t most);

#endif
