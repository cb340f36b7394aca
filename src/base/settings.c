#include "base/settings.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

enum { SHOWN = 200 }; /* bytes of a line */

/* Bytes of the first line before `end`, or all of them. */
static size_t until(tg__settings s, char end)
{
    const char *newline = s.len > 0 ? memchr(s.text, '\n', s.len) : NULL;
    const size_t len = newline == NULL ? s.len : (size_t)(newline - s.text);
    const char *found = len > 0 ? memchr(s.text, end, len) : NULL;
    return found == NULL ? len : (size_t)(found - s.text);
}

static tg__settings after_line(tg__settings s)
{
    size_t len = until(s, '\n');
    len += len < s.len;
    return (tg__settings){s.text + len, s.len - len};
}

static bool begins(tg__settings s, const char *start, size_t len)
{
    return s.len >= len && memcmp(s.text, start, len) == 0;
}

/* True if a line has the key of the first line of `of`. */
static bool has_key(tg__settings s, tg__settings of)
{
    const size_t len = until(of, '=');
    while (s.len > 0 && !(until(s, '=') == len && begins(s, of.text, len)))
        s = after_line(s);
    return s.len > 0;
}

/* Where the item at `from` of "name:key=value,key=value" ends. */
static size_t item_end(tg__settings s, size_t from)
{
    const size_t len = until(s, '\n');
    for (int depth = 0; from < len && (depth > 0 || s.text[from] != ','); from++)
        depth += (s.text[from] == '[') - (s.text[from] == ']');
    return from;
}

/* If the difference at `same` is in the value of an item, its bounds, and those of its name. */
static bool find_item(tg__settings a, tg__settings b, size_t same, size_t *head_p, size_t *from_p,
                      size_t end[2])
{
    const size_t key = until(a, '=') + 1;
    const char *colon = same > key ? memchr(a.text + key, ':', same - key) : NULL;
    if (colon == NULL)
        return false;
    size_t from = (size_t)(colon - a.text) + 1, next;
    const size_t head = from;
    while ((next = item_end(a, from)) < same)
        from = next + 1;
    const size_t other = item_end(b, from);
    if (memchr(a.text + from, '=', same - from) == NULL || (next == same && other == same))
        return false;
    *head_p = head;
    *from_p = from;
    end[0] = next;
    end[1] = other;
    return true;
}

/* Where the name of the spec in "key=name:..." ends; 0: it is no spec. */
static size_t name_end(tg__settings s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const size_t len = until(s, '\n'), from = TG__MIN(until(s, '=') + 1, len);
    size_t end = from;
    while (end < len && memchr(letters, s.text[end], sizeof letters - 1) != NULL)
        end++;
    return end > from && (end == len || s.text[end] == ':') ? end : 0;
}

/* Show two lines with the same key, of which the first `same` bytes are equal. */
static void show(tg__settings a, tg__settings b, size_t same, tg__unlike *u)
{
    const tg__settings line[2] = {a, b};
    size_t head = 0, from = 0, end[2] = {until(a, '\n'), until(b, '\n')};
    const size_t name[2] = {name_end(a), name_end(b)};
    const bool item = find_item(a, b, same, &head, &from, end);
    const bool specs = name[0] > 0 && name[1] > 0 && (name[0] < end[0] || name[1] < end[1]);
    if (!item && specs && same <= TG__MIN(name[0], name[1]) && same < TG__MAX(name[0], name[1])) {
        end[0] = name[0]; /* specs with other names have other keys */
        end[1] = name[1];
    } else if (!item && TG__MAX(end[0], end[1]) > SHOWN && same > until(a, '=') + 40) {
        head = until(a, '=') + 1;
        from = same - 20;
    }
    for (int i = 0; i < 2; i++)
        snprintf(u->text[i], sizeof u->text[i], "%.*s%s%.*s", (int)TG__MIN(head, (size_t)SHOWN),
                 a.text, head > 0 && !item ? "..." : "", (int)TG__MIN(end[i] - from, (size_t)SHOWN),
                 line[i].text + from);
}

/* Show a line of i whose key the other lacks. */
static void show_one(tg__settings s, int i, tg__unlike *u)
{
    u->has[1 - i] = false;
    snprintf(u->text[i], sizeof u->text[i], "%.*s", (int)TG__MIN(until(s, '\n'), (size_t)SHOWN),
             s.text);
    snprintf(u->text[1 - i], SHOWN, "%.*s", (int)TG__MIN(until(s, '='), (size_t)SHOWN), s.text);
}

static tg__settings skip(tg__settings s, const char *except)
{
    while (except != NULL && begins(s, except, strlen(except)))
        s = after_line(s);
    return s;
}

bool tg__settings_differ(tg__settings a, tg__settings b, const char *except, tg__unlike *unlike_p)
{
    size_t same = 0, la = 0, lb = 0;
    for (;; a = after_line(a), b = after_line(b)) {
        a = skip(a, except);
        b = skip(b, except);
        la = until(a, '\n');
        lb = until(b, '\n');
        for (same = 0; same < la && same < lb && a.text[same] == b.text[same];)
            same++;
        if (same < la || same < lb)
            break;
        if (a.len == 0 && b.len == 0)
            return false;
    }
    const bool in_a = has_key(a, b), in_b = has_key(b, a);
    *unlike_p = (tg__unlike){.has = {true, true}};
    if (b.len == 0 || (in_a && !in_b && a.len > 0))
        show_one(a, 0, unlike_p);
    else if (a.len == 0 || (in_b && !in_a))
        show_one(b, 1, unlike_p);
    else
        show(a, b, same, unlike_p);
    return true;
}

tg__settings tg__settings_find(tg__settings s, const char *start)
{
    while (s.len > 0 && !begins(s, start, strlen(start)))
        s = after_line(s);
    return (tg__settings){s.text, until(s, '\n')};
}
