/* Which files may be opened for reading, without waiting for another process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/tools.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/telegrad-readfile-XXXXXX";
static char path[sizeof dir + 16];

static void refused(const char *name, tg_readable what, const char *word)
{
    const char *why = NULL;
    alarm(60); /* ends a test that waits */
    assert_int_equal(tg_readfile_open(name, what, NULL, &why), -1);
    alarm(0);
    if (!strstr(why, word))
        fail_msg("%s: \"%s\" does not say \"%s\"", name, why, word);
}

static void regular_files(void **state)
{
    (void)state;
    uint64_t size = 0;
    const char *why;
    char byte;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    for (int what = TG_READ_REGULAR; what <= TG_READ_STREAM; what++) {
        fd = tg_readfile_open(path, (tg_readable)what, &size, &why);
        assert_true(fd >= 0);
        assert_int_equal(size, 3);
        assert_int_equal(read(fd, &byte, 1), 1);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
    }
    unlink(path);
    refused(path, TG_READ_REGULAR, "No such file");
}

static void pipes(void **state)
{
    (void)state;
    int ends[2];
    const char *why;
    char name[64], byte;
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(path, TG_READ_REGULAR, "FIFO");
    unlink(path);
    assert_int_equal(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    refused(name, TG_READ_REGULAR, "FIFO");
    assert_int_equal(write(ends[1], "x", 1), 1);
    const int fd = tg_readfile_open(name, TG_READ_STREAM, NULL, &why);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

static void tick(int number)
{
    (void)number;
}

/* A timer's signals, after which system calls are not begun again. */
static void interrupted(void **state)
{
    (void)state;
    const struct sigaction ticks = {.sa_handler = tick};
    const struct itimerval often = {.it_interval = {.tv_usec = 5000},
                                    .it_value = {.tv_usec = 5000}},
                           never = {.it_value = {.tv_sec = 0}};
    struct sigaction before;
    const char *why = "";
    char byte = 0;
    assert_int_equal(mkfifo(path, 0600), 0);
    const pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        const int to = open(path, O_WRONLY);
        _exit(write(to, "x", 1) == 1 ? 0 : 1);
    }
    assert_int_equal(sigaction(SIGALRM, &ticks, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    const int fd = tg_readfile_open(path, TG_READ_STREAM, NULL, &why);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    if (fd < 0)
        fail_msg("%s", why);
    assert_int_equal(read(fd, &byte, 1), 1);
    close(fd);
    assert_int_equal(waitpid(child, NULL, 0), child);
    unlink(path);
}

static void others(void **state)
{
    (void)state;
    const char *why;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    refused(dir, TG_READ_REGULAR, "directory");
    refused(dir, TG_READ_STREAM, "directory");
    refused("/dev/zero", TG_READ_REGULAR, "device");
    const int fd = tg_readfile_open("/dev/null", TG_READ_STREAM, NULL, &why);
    assert_true(fd >= 0);
    close(fd);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, sizeof path);
    assert_int_equal(bind(s, (const struct sockaddr *)&address, sizeof address), 0);
    refused(path, TG_READ_STREAM, "socket");
    close(s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_files),
        cmocka_unit_test(pipes),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(others),
    };
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/file", dir);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return failed;
}
