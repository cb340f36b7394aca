#include "command/train/mismatch_text.h"
#include "telegrad/tools.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1024 };
#define DATA "data="
#define SAME_DATA "; allowed: the same --data and --holdout, and the same files"

/* Settings that ranks compare, and the options that they come from. */
static const char *const options[][2] = {{"model=", "--model "},
                                         {"batch=", "--batch "},
                                         {"context=", "--context "},
                                         {"shard=", "--shard "},
                                         {"lr_schedule=", "--lr-schedule "},
                                         {"lr_scale=", "--lr-scale "},
                                         {"accumulate=", "--accumulate "},
                                         {"precision=", "--precision "},
                                         {"method=", "--method "},
                                         {"strategy=", "--strategy "},
                                         {"optimizer=", "--optimizer "},
                                         {"seed=", "--seed "},
                                         {"bucket_bytes=", "--fusion "},
                                         {"rule=", "--rule "},
                                         {"buckets=", "--fusion auto, with buckets "},
                                         {"no such rule", "no such --rule"}};

/* What a rank has with an option, and what one has without it. */
static const struct {
    const char *with, *without, *option;
} flags[] = {{"start=load", "start=begin", "--resume"},
             {"reducer=", "session=", "--fusion auto"},
             {"buckets=", "no such buckets", "--fusion auto"},
             {"nodes=rank", "nodes=none", "--nodes"}};

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void print_setting(char text[TEXT], const char *setting)
{
    snprintf(text, TEXT, "%.480s", setting);
    if (begins(setting, "nodes=")) /* written as the library counts them */
        snprintf(text, TEXT, "--nodes");
    if (begins(setting, "nodes=rank"))
        snprintf(text, TEXT, "--nodes with %.480s", setting + strlen("nodes="));
    for (size_t i = 0; i < TG_COUNT(options); i++)
        if (begins(setting, options[i][0]))
            snprintf(text, TEXT, "%s%.480s", options[i][1], setting + strlen(options[i][0]));
}

/* of: what each of the two ranks has */
static void print(char text[TEXT], const int rank[2], char of[2][TEXT])
{
    static const char start[] = "ranks were started differently";
    char own[TEXT], other[TEXT];
    for (size_t i = 0; i < TG_COUNT(flags); i++)
        for (int with = 0; with < 2; with++)
            if (begins(of[with], flags[i].with) && begins(of[1 - with], flags[i].without)) {
                snprintf(text, TEXT, "%s: rank %d has %s, rank %d does not have it", start,
                         rank[with], flags[i].option, rank[1 - with]);
                return;
            }
    print_setting(own, of[0]);
    print_setting(other, of[1]);
    snprintf(text, TEXT, "%s: rank %d has %.400s, rank %d has %.400s%s", start, rank[0], own,
             rank[1], other, begins(own, DATA) ? SAME_DATA : "");
}

/* A checkpoint of other settings: from `quoted` on they are in quotation marks. */
static tg_status print_saved(const char *message, const char *quoted)
{
    char text[TEXT], setting[TEXT], option[TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "%.*s", (int)(quoted - message), message);
    bool data = false;
    for (const char *at = quoted; *at && used < sizeof text; at += *at == '"') {
        size_t len = strcspn(at, "\"");
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", (int)len, at);
        at += len;
        if (*at == '\0' || used >= sizeof text)
            break;
        len = strcspn(++at, "\"");
        snprintf(setting, sizeof setting, "%.*s", (int)len, at);
        print_setting(option, setting);
        data = data || begins(setting, DATA);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", option);
        at += len;
    }
    return tg_fail(TG_E_MISMATCH, "%s%s", text, data ? SAME_DATA : "");
}

tg_status mismatch_text(tg_status status)
{
    char message[TEXT], of[2][TEXT] = {"", ""}, text[TEXT];
    int rank[2], at = 0;
    if (status != TG_E_MISMATCH)
        return status;
    snprintf(message, sizeof message, "%s", tg_error());
    const char *begin = strstr(message, " is of another job: ");
    if (begin)
        return print_saved(message, begin);
    begin = strstr(message, "ranks were started differently: rank ");
    if (!begin ||
        sscanf(begin, "ranks were started differently: rank %d has %n", &rank[0], &at) < 1 ||
        at == 0)
        return status;
    const char *first = begin + at, *second = strstr(first, ", rank ");
    at = 0;
    if (!second || sscanf(second, ", rank %d has %n", &rank[1], &at) < 1 || at == 0)
        return status;
    snprintf(of[0], sizeof of[0], "%.*s", (int)(second - first), first);
    snprintf(of[1], sizeof of[1], "%s", second + at);
    print(text, rank, of);
    return tg_fail(status, "%.*s%s", (int)(begin - message), message, text);
}
