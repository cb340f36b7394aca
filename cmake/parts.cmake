include(cmake/mpi.cmake)
include(cmake/mpi_exchange.cmake)
include(cmake/train.cmake)
include(cmake/cli.cmake OPTIONAL)
