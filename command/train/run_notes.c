#include "command/train/run_notes.h"
#include "command/output/console.h"
#include "command/train/records.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct run_options *o, enum run_note_kind kind, const char *format, va_list args)
{
    if (o->settled.notes == OPT_MAX_NOTES)
        return;
    struct run_note *note = &o->settled.note[o->settled.notes++];
    note->kind = kind;
    vsnprintf(note->text, sizeof note->text, format, args);
}

void run_notes_add(struct run_options *o, bool warns, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(o, warns ? RUN_WARNING : RUN_NOTE, format, args);
    va_end(args);
}

void run_notes_remark(struct run_options *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(o, RUN_REMARK, format, args);
    va_end(args);
}

void run_notes_say(const struct run_options *o, const char *title)
{
    const char *colon = title[0] ? ": " : "";
    for (size_t i = 0; i < o->settled.notes; i++) {
        const char *text = o->settled.note[i].text;
        switch (o->settled.note[i].kind) {
        case RUN_REMARK:
            console_remark("%s%s%s", title, colon, text);
            break;
        case RUN_NOTE:
            console_note("%s%s%s", title, colon, text);
            break;
        case RUN_WARNING:
            console_warning("%s%s%s", title, colon, text);
            break;
        }
    }
}

json_t *run_notes_record(const struct run_options *o)
{
    char all[OPT_MAX_NOTES * (sizeof o->settled.note[0].text + 2)] = "";
    for (size_t i = 0, used = 0; i < o->settled.notes; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? "; " : "",
                                 o->settled.note[i].text);
    return jsonl_text(all[0] ? all : NULL);
}
