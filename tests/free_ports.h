/* Finds free ports on this machine. Include it after cmocka.h. */
#ifndef TESTS_FREE_PORTS_H
#define TESTS_FREE_PORTS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FREE_PORTS_MAX = 8 };

/* Fill in "127.0.0.1:PORT" (count), all different: ports below those that the system gives to
 * outgoing connections, so that none of them takes one meanwhile. */
static inline void find_ports(int count, char address[][32])
{
    enum { FIRST = 10000, PORTS = 22000 };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned port = (unsigned)(now.tv_nsec / 1000) + 7919 * (unsigned)getpid();
    int fd[FREE_PORTS_MAX];
    for (int i = 0; i < count; port++) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons((uint16_t)(FIRST + port % PORTS))};
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(fd[i] >= 0);
        if (bind(fd[i], (struct sockaddr *)&in, sizeof in) == 0)
            snprintf(address[i++], 32, "127.0.0.1:%d", ntohs(in.sin_port));
        else
            close(fd[i]);
    }
    for (int i = 0; i < count; i++)
        close(fd[i]);
}

#endif
