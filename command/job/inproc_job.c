/* Ranks that are threads of this process. */
#include "command/job/transports.h"

const struct job_transport job_transport_inproc = {
    .name = "inproc", .about = "threads of one process, through memory", .count = "--workers N"};
