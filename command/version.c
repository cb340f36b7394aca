#include "command/version.h"
#include "command/output/console.h"
#include "trainer/loop/train.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_MPI
#include "command/job/mpi_launch.h"
#endif

void version_print(void)
{
    printf("telegrad %s\n", tg_version());
    printf("CPU level %s\n", tg_cpu_level());
    const char *wish = getenv("TG_CPU");
    if (wish && *wish && strcmp(wish, tg_cpu_level()) != 0)
        console_warning("TG_CPU=%.64s: this CPU and build do not have that level", wish);
    for (size_t i = 0; i < TRAIN_LIBRARIES; i++) {
        const train_library library = train_library_version(i);
        printf("%s %s\n", library.name, library.version);
    }
    printf("jansson %s\n", jansson_version_str());
#ifdef HAVE_MPI
    char mpi[64];
    mpi_launch_version(mpi, sizeof mpi);
    printf("MPI %s\n", mpi);
#else
    puts("MPI none");
#endif
}
