#include "command/compare/spec_file.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES ((size_t)1 << 20)

static tg_status read_all(const char *path, char **text_p)
{
    const char *why;
    const int fd = tg_readfile_open(path, TG_READ_STREAM, NULL, &why);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd < 0)
        return tg_fail(TG_E_IO, "--spec %s: cannot be opened: %s", path, why);
    if (!file) {
        close(fd);
        return tg_fail(TG_E_NOMEM, "out of memory: --spec %s", path);
    }
    char *text = malloc(MAX_BYTES + 1);
    errno = 0;
    size_t len = text ? fread(text, 1, MAX_BYTES + 1, file) : 0;
    int error = ferror(file) ? (errno ? errno : EIO) : 0;
    fclose(file);
    tg_status status = TG_OK;
    if (!text)
        status = tg_fail(TG_E_NOMEM, "out of memory: --spec %s", path);
    else if (error)
        status = tg_fail(TG_E_IO, "--spec %s: cannot be read: %s", path, strerror(error));
    else if (len <= MAX_BYTES && memchr(text, '\0', len))
        status = tg_fail(TG_E_SPEC, "--spec %s: byte %zu is NUL: allowed: a text", path,
                         (size_t)((char *)memchr(text, '\0', len) - text));
    else if (len > MAX_BYTES)
        status =
            tg_fail(TG_E_SPEC, "--spec %s: allowed: a text of at most %zu bytes", path, MAX_BYTES);
    if (status != TG_OK) {
        free(text);
        return status;
    }
    text[len] = '\0';
    *text_p = text;
    return TG_OK;
}

/* Read "--option value", "--option=value" or "--option". */
static tg_status read_option(char *line, const struct run_options *given,
                             struct run_options *common)
{
    char *name = line + 2;
    size_t len = strcspn(name, "= \t");
    char *value = name[len] ? name + len + 1 : NULL;
    name[len] = '\0';
    if (value)
        value += strspn(value, " \t");
    /* The value is checked even if the command line overrides it. */
    struct run_options trial = *common;
    TG_TRY(options_set(&trial, OPT_COMPARE, name, value && *value ? value : NULL));
    if (value && options_given(common, name) && !options_given(given, name) &&
        !options_repeatable(name))
        return tg_fail(TG_E_SPEC, "--%s is given twice", name);
    const char *same = strcmp(name, "steps") == 0    ? "epochs" /* either sets the length of runs */
                       : strcmp(name, "epochs") == 0 ? "steps"
                                                     : name;
    if (!options_given(given, name) && !options_given(given, same))
        *common = trial;
    return TG_OK;
}

/* Read "name: method=..;strategy=..". */
static tg_status read_run(char *line, const char *where, struct compare_plan *plan)
{
    char *colon = strchr(line, ':');
    if (!colon || memchr(line, '=', (size_t)(colon - line)) || colon == line)
        return tg_fail(TG_E_SPEC,
                       "\"%.64s\": allowed: name: key=value;key=value, --option value, "
                       "# comment",
                       line);
    *colon = '\0';
    size_t len = strlen(line);
    while (len && strchr(" \t", line[len - 1]))
        line[--len] = '\0';
    return plan_add(plan, line, colon + 1, where);
}

static tg_status read_line(char *line, const char *where, const struct run_options *given,
                           struct run_options *common, struct compare_plan *plan)
{
    line += strspn(line, " \t");
    line[strcspn(line, "#\r")] = '\0';
    size_t len = strlen(line);
    while (len && strchr(" \t", line[len - 1]))
        line[--len] = '\0';
    if (!len)
        return TG_OK;
    tg_status status = strncmp(line, "--", 2) == 0 ? read_option(line, given, common)
                                                   : read_run(line, where, plan);
    return status == TG_OK ? TG_OK : tg_fail(status, "%s: %s", where, tg_error());
}

tg_status spec_file_read(const char *path, struct run_options *common, struct compare_plan *plan)
{
    const struct run_options given = *common;
    char where[256];
    TG_TRY(read_all(path, &plan->spec_text));
    char *rest = plan->spec_text;
    for (size_t number = 1; rest; number++) {
        char *line = rest;
        rest = strchr(rest, '\n');
        if (rest)
            *rest++ = '\0';
        snprintf(where, sizeof where, "%.200s:%zu", path, number);
        TG_TRY(read_line(line, where, &given, common, plan));
    }
    return TG_OK;
}
