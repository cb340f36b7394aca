#include "command/version.h"
#include "command/job/transports.h"
#include "command/output/console.h"
#include "trainer/loop/train.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void version_print(void)
{
    printf("telegrad %s\n", tg_version());
    printf("CPU level %s\n", tg_cpu_level());
    const char *wish = getenv("TG_CPU");
    if (wish && *wish && strcmp(wish, tg_cpu_level()) != 0)
        console_warning("TG_CPU=%.64s: this CPU and build do not have that level", wish);
#ifdef HAVE_TRAIN
    for (size_t i = 0; i < TRAIN_LIBRARIES; i++) {
        const train_library library = train_library_version(i);
        printf("%s %s\n", library.name, library.version);
    }
#else
    printf("oneDNN none\n");
#endif
    printf("jansson %s\n", jansson_version_str());
    const struct job_transport *mpi = job_transport_find("mpi");
    char text[64] = "none";
    if (mpi)
        mpi->version(text, sizeof text);
    printf("MPI %s\n", text);
    const struct job_transport *tcp = job_transport_find("tcp");
    snprintf(text, sizeof text, "none");
    if (tcp)
        tcp->version(text, sizeof text);
    printf("OpenSSL %s\n", text);
}
