#include "cli/outfile.h"
#include "cli/stop.h"
#include <stdio.h>

static tg_status name_option(tg_status status, const char *option)
{
    char text[1024];
    if (status == TG_OK)
        return TG_OK;
    snprintf(text, sizeof text, "%s", tg_error());
    return tg_fail(status, "%s: %s", option, text);
}

tg_status outfile_open(tg__newfile *f, const char *option, const char *path)
{
    TG_TRY(name_option(tg__newfile_open(f, path), option));
    stop_guard_file(f->tmp);
    return TG_OK;
}

tg_status outfile_commit(tg__newfile *f, const char *option)
{
    stop_guard_file(NULL);
    return name_option(tg__newfile_commit(f), option);
}

void outfile_abandon(tg__newfile *f)
{
    stop_guard_file(NULL);
    tg__newfile_abandon(f);
}

tg_status outfile_check(const char *option, const char *path, bool alone)
{
    return name_option(tg__newfile_check(path, alone), option);
}
