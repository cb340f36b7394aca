#include "command/output/output.h"
#include "telegrad/tools.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_error; /* errno of the first failed write; 0: none failed */

/* A file opened later must not become standard output. A closed standard descriptor is replaced by
 * one that cannot be written to. */
static void occupy_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void output_open(void)
{
    occupy_standard_fds();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write (EFBIG) */
    FILE *out = tg_stream_open(STDOUT_FILENO, &write_error);
    if (!out)
        return;
    (void)setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = out;
}

void output_outlive_readers(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
}

tg_status output_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return TG_OK;
    return tg_fail(TG_E_IO, "cannot write to standard output: %s",
                   strerror(write_error ? write_error : EIO));
}

tg_status output_table(struct table *t)
{
    const int printed = table_print(t, stdout);
    TG_TRY(output_flush());
    return printed == 0 ? TG_OK : tg_fail(TG_E_NOMEM, "out of memory: a table");
}

int output_end(int exit_status)
{
    if (output_flush() == TG_OK)
        return exit_status;
    if (!console_has_spoken())
        console_error("%s", tg_error());
    return exit_status == CLI_OK ? CLI_FAILED : exit_status;
}
