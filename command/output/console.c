#include "command/output/console.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ERASE_LINE "\r\033[K"
#define LEAST_COLUMNS 20

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool quiet, silent, verbose, status_shown, errors_wait, has_spoken;
enum { RECENT = 4 };
static char recent[RECENT][1024]; /* the library's last messages that were printed */
static unsigned next_recent;

bool console_terminal(void)
{
    const char *kind = getenv("TERM"); /* "dumb": it cannot erase a line */
    return isatty(STDERR_FILENO) != 0 && !(kind && strcmp(kind, "dumb") == 0);
}

int console_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST_COLUMNS)
        return size.ws_col;
    return 80;
}

int console_out_columns(void)
{
    const char *text = getenv("COLUMNS");
    char *end = NULL;
    const long columns = text ? strtol(text, &end, 10) : 0;
    struct winsize size;
    if (columns >= 1 && columns <= 10000 && *end == '\0')
        return columns < LEAST_COLUMNS ? LEAST_COLUMNS : (int)columns;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col >= LEAST_COLUMNS)
        return size.ws_col;
    return 0;
}

void console_quiet(void)
{
    pthread_mutex_lock(&mutex);
    quiet = true;
    pthread_mutex_unlock(&mutex);
}

void console_silent(void)
{
    pthread_mutex_lock(&mutex);
    quiet = silent = true;
    pthread_mutex_unlock(&mutex);
}

void console_verbose(void)
{
    pthread_mutex_lock(&mutex);
    verbose = true;
    pthread_mutex_unlock(&mutex);
}

void console_errors_wait(bool wait)
{
    pthread_mutex_lock(&mutex);
    errors_wait = wait;
    pthread_mutex_unlock(&mutex);
}

bool console_has_spoken(void)
{
    pthread_mutex_lock(&mutex);
    bool spoken = has_spoken;
    pthread_mutex_unlock(&mutex);
    return spoken;
}

/* Whether remarks are shown: stderr is a terminal, or --verbose. Call with the mutex held. */
static bool remarks_wanted(void)
{
    return !quiet && (verbose || console_terminal());
}

/* Call with the mutex held. */
static void erase_status(void)
{
    if (status_shown)
        fputs(ERASE_LINE, stderr);
    status_shown = false;
}

/* Messages quote specs, paths and the contents of files, which must not control the terminal. Call
 * with the mutex held. */
static void say(const char *prefix, char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\n') || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            *p = '?';
    erase_status();
    fprintf(stderr, "%s%s\n", prefix, text);
    fflush(stderr);
}

static void print(const char *prefix, const char *format, va_list args)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    say(prefix, text);
}

void console_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&mutex);
    const bool wait = errors_wait;
    pthread_mutex_unlock(&mutex);
    if (wait) /* without the mutex, so that others can print */
        sleep(2);
    pthread_mutex_lock(&mutex);
    print("telegrad: ", format, args);
    has_spoken = true;
    pthread_mutex_unlock(&mutex);
    va_end(args);
}

static void print_unless_quiet(const char *prefix, const char *format, va_list args)
{
    pthread_mutex_lock(&mutex);
    if (!quiet)
        print(prefix, format, args);
    pthread_mutex_unlock(&mutex);
}

void console_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_unless_quiet("telegrad: ", format, args);
    va_end(args);
}

void console_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_unless_quiet("telegrad: warning: ", format, args);
    va_end(args);
}

void console_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&mutex);
    if (!silent)
        print("telegrad: ", format, args);
    pthread_mutex_unlock(&mutex);
    va_end(args);
}

void console_remark(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&mutex);
    if (remarks_wanted())
        print("", format, args);
    pthread_mutex_unlock(&mutex);
    va_end(args);
}

void console_status(const char *line)
{
    pthread_mutex_lock(&mutex);
    if (!quiet && console_terminal()) {
        erase_status();
        fputs(line, stderr);
        fflush(stderr);
        status_shown = line[0] != '\0';
    }
    pthread_mutex_unlock(&mutex);
}

/* Whether one of the last messages was the same: every rank of the process logs it, and a folder of
 * checkpoints is looked at more than once. */
static bool is_recent(const char *message)
{
    for (int i = 0; i < RECENT; i++)
        if (strncmp(message, recent[i], sizeof recent[i] - 1) == 0)
            return true;
    return false;
}

static void on_log(void *arg, tg_log_level level, const char *message)
{
    (void)arg;
    pthread_mutex_lock(&mutex);
    bool wanted = !quiet && (level != TG_LOG_INFO || remarks_wanted());
    if (wanted && !is_recent(message)) {
        char text[2048]; /* as long as the library's messages */
        snprintf(text, sizeof text, "%s", message);
        say(level == TG_LOG_WARN ? "telegrad: warning: " : "telegrad: ", text);
        snprintf(recent[next_recent], sizeof recent[0], "%s", message);
        next_recent = (next_recent + 1) % RECENT;
    }
    pthread_mutex_unlock(&mutex);
}

void console_take_log(void)
{
    tg_log_set(on_log, NULL);
}
