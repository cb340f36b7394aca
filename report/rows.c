#include "report/rows.h"
#include <stdlib.h>

tg_status run_rows_next(run_rows *rows, const char *path, double **row_p)
{
    if (rows->count == rows->room) {
        const size_t room = rows->room ? 2 * rows->room : 64;
        double *v = realloc(rows->v, room * rows->columns * sizeof *v);
        if (!v)
            return tg_fail(TG_E_NOMEM, "out of memory: records of %s", path);
        rows->v = v;
        rows->room = room;
    }
    *row_p = rows->v + rows->count * rows->columns;
    return TG_OK;
}
