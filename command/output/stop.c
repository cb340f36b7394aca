#include "command/output/stop.h"
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t stop_signal;
int stop_rank = -1;
static volatile sig_atomic_t guarded, at_once, says;
static struct timespec arrived; /* written before stop_signal is set */
static char guarded_path[PATH_MAX];
static const char *volatile first_text;

static const char *name_of(int signal_number)
{
    return signal_number == SIGTERM ? "SIGTERM" : signal_number == SIGHUP ? "SIGHUP" : "SIGINT";
}

/* With what a signal handler may call. */
static void say_ended(int signal_number)
{
    const char *const parts[] = {
        at_once ? "telegrad: interrupted by " : "telegrad: interrupted again by ",
        name_of(signal_number), at_once ? "\n" : ": ended at once, without saving\n"};
    char text[96] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memcpy(text + used, parts[i], strlen(parts[i]));
        used += strlen(parts[i]);
    }
    ssize_t ignored = write(STDERR_FILENO, text, used);
    (void)ignored;
}

bool stop_came_before(long ms)
{
    struct timespec now;
    if (stop_signal == 0 || clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return false;
    const long seconds = (long)(now.tv_sec - arrived.tv_sec);
    return seconds * 1000 + (now.tv_nsec - arrived.tv_nsec) / 1000000 >= ms;
}

static void on_signal(int signal_number)
{
    /* timeout(1) signals a process, and then its group: one interrupt that comes twice. */
    if (stop_signal && !stop_came_before(200))
        return;
    /* A terminal that closes may send more than one, from its shell and from the system. */
    if (stop_signal && signal_number == SIGHUP)
        return;
    if (stop_signal || at_once) {
        if (guarded)
            (void)unlink(guarded_path);
        if (says)
            say_ended(signal_number);
        _exit(128 + signal_number);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &arrived);
    __atomic_signal_fence(__ATOMIC_RELEASE);
    stop_signal = signal_number;
    if (first_text) {
        const int before = errno;
        ssize_t ignored = write(STDERR_FILENO, first_text, strlen(first_text));
        (void)ignored;
        errno = before;
    }
}

void stop_install(bool speaks)
{
    says = speaks;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup has it ignored; and rank 0 reads its list of keys again (tcp_join.h). */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGHUP, &action, NULL);
}

void stop_install_at_once(bool speaks)
{
    at_once = 1;
    stop_install(speaks);
}

void stop_say_first(const char *text)
{
    first_text = text;
}

void stop_guard_file(const char *path)
{
    guarded = 0;
    if (!path)
        return;
    int len = snprintf(guarded_path, sizeof guarded_path, "%s", path);
    guarded = len > 0 && (size_t)len < sizeof guarded_path;
}

int stop_exit_status(void)
{
    return 128 + (stop_signal ? (int)stop_signal : SIGINT);
}

const char *stop_signal_name(void)
{
    return name_of(stop_signal);
}

const char *stop_words(void)
{
    static char words[60];
    if (stop_rank < 0)
        snprintf(words, sizeof words, "interrupted by %s", stop_signal_name());
    else
        snprintf(words, sizeof words, "rank %d was interrupted by %s", stop_rank,
                 stop_signal_name());
    return words;
}
