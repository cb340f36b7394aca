#include "command/version.h"
#include "command/output/cli.h"
#include "trainer/loop/train.h"
#include <jansson.h>
#include <stdio.h>
#ifdef HAVE_MPI
#include "command/job/mpi_launch.h"
#endif

void version_print(void)
{
    printf("telegrad %s\n", tg_version());
    printf("CPU level %s\n", tg_cpu_level());
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
