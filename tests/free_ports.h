/* Finds free ports on this machine. Include it after cmocka.h. */
#ifndef TESTS_FREE_PORTS_H
#define TESTS_FREE_PORTS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FREE_PORTS_MAX = 8 };

/* Fill in "127.0.0.1:PORT" (count), all different. */
static inline void find_ports(int count, char address[][32])
{
    int fd[FREE_PORTS_MAX];
    for (int i = 0; i < count; i++) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof in;
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fd[i], (struct sockaddr *)&in, sizeof in), 0);
        assert_int_equal(getsockname(fd[i], (struct sockaddr *)&in, &len), 0);
        snprintf(address[i], 32, "127.0.0.1:%d", ntohs(in.sin_port));
    }
    for (int i = 0; i < count; i++)
        close(fd[i]);
}

#endif
