/* Who waited for whom in each epoch of a run, from its epoch records. */
#ifndef TG_EPOCH_WAITS_H
#define TG_EPOCH_WAITS_H

#include <jansson.h>

/* Add the waits of an epoch record to *list_p (NULL: empty so far). Does nothing if the record has
 * none, or when out of memory. */
void epoch_waits_add(json_t **list_p, const json_t *record);

/* Remove the epochs that ended after `step`. list may be NULL. */
void epoch_waits_drop_after(json_t *list, double step);

/* A list, ordered by time, of {"epochs": count, "for": [seconds by rank], "by": [seconds by rank]}.
 * It has at most `most` entries; if there are more epochs, an entry covers several. The result is
 * null for fewer than two epochs. Epochs with another number of ranks than the last one are left
 * out. */
json_t *epoch_waits_json(const json_t *list, size_t most);

#endif
