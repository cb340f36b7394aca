/* The machine of this process, as its system describes it. */
#include "command/doctor/doctor_findings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SETTINGS "/proc/sys/net/ipv4/"

/* The first line of a file; "" if it cannot be read. */
static void read_line(const char *path, char *text, int room)
{
    FILE *f = fopen(path, "re");
    text[0] = '\0';
    if (f && !fgets(text, room, f))
        text[0] = '\0';
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = '\0';
}

/* The third of three numbers: least, usual, most. */
static double most(const char *path)
{
    char text[100];
    unsigned long long least, usual, bytes;
    read_line(path, text, sizeof text);
    return sscanf(text, "%llu %llu %llu", &least, &usual, &bytes) == 3 ? (double)bytes : 0;
}

void doctor_machine_look(struct doctor_machine *m)
{
    struct utsname u;
    char text[16];
    memset(m, 0, sizeof *m);
    if (gethostname(m->host, sizeof m->host - 1) != 0)
        snprintf(m->host, sizeof m->host, "?");
    snprintf(m->version, sizeof m->version, "%s", tg_version());
    if (uname(&u) == 0)
        snprintf(m->system, sizeof m->system, "%.20s %.40s", u.sysname, u.release);
    read_line(SETTINGS "tcp_congestion_control", m->congestion, sizeof m->congestion);
    read_line(SETTINGS "tcp_slow_start_after_idle", text, sizeof text);
    m->idle_restart = strcmp(text, "1") == 0;
    m->receive_bytes = most(SETTINGS "tcp_rmem");
    m->send_bytes = most(SETTINGS "tcp_wmem");
}
