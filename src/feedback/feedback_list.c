/* The list of feedbacks, made from feedbacks.def. */
#include "feedback/feedback.h"
#include "base/mem.h"
#include <string.h>

#define TG_FEEDBACK(name) &tg__feedback_##name,
static const tg__feedback_ops *const all[] = {
#include "feedback/feedbacks.def"
};
#undef TG_FEEDBACK

#define TG_FEEDBACK(name) &tg__feedback_##name.entry,
static const tg_entry *const entries[] = {
#include "feedback/feedbacks.def"
};
#undef TG_FEEDBACK

const tg__feedback_ops *const *tg__feedbacks(size_t *count_p)
{
    *count_p = TG_COUNT(all);
    return all;
}

const tg_entry *const *tg__feedback_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

const tg__feedback_ops *tg__feedback_find(const char *name)
{
    for (size_t i = 0; i < TG_COUNT(all); i++)
        if (strcmp(all[i]->entry.name, name) == 0)
            return all[i];
    return NULL;
}

float *tg__feedback_pending(const tg__feedback *f)
{
    return f->ops->pending < f->ops->vectors ? f->vec[f->ops->pending] : NULL;
}
