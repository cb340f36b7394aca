#include "command/output/cli.h"
#include "command/output/console.h"
#include <errno.h>

int cli_exit_status(tg_status status)
{
    switch (status) {
    case TG_OK:
        return CLI_OK;
    case TG_E_SPEC:
    case TG_E_ARG:
    case TG_E_UNSUPPORTED:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

int cli_end(tg_status status)
{
    if (status != TG_OK)
        console_error("%s", tg_error());
    return cli_exit_status(status);
}

int cli_parsed(tg_status status)
{
    if (status == TG_OK)
        return 0;
    console_error("%s", tg_error());
    return EINVAL;
}
