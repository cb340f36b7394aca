# libtelegrad-mpi: the MPI transport, apart from the core so that the core needs no MPI.
# TG_MPI: AUTO builds it if an MPI is there, ON demands it, OFF leaves it out.
# Sets TG_HAVE_MPI.
set(TG_HAVE_MPI OFF)
if(TG_MPI STREQUAL "OFF")
    return()
endif()
# Where several MPIs are installed the plain names may be anybody's: ask for Open MPI's first, unless
# the user named one (-DMPI_C_COMPILER=...).
if(NOT MPI_C_COMPILER AND NOT MPI_HOME AND NOT DEFINED ENV{MPI_HOME})
    find_program(TG_MPICC mpicc.openmpi)
    find_program(TG_MPIEXEC mpirun.openmpi)
    mark_as_advanced(TG_MPICC TG_MPIEXEC)
    if(TG_MPICC AND TG_MPIEXEC)
        set(MPI_C_COMPILER ${TG_MPICC} CACHE FILEPATH "MPI compiler for C")
        set(MPIEXEC_EXECUTABLE ${TG_MPIEXEC} CACHE FILEPATH "Starts MPI programs")
    endif()
endif()
if(TG_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS C)
else()
    find_package(MPI QUIET COMPONENTS C)
endif()
if(NOT MPI_C_FOUND)
    message(STATUS "telegrad: no MPI transport (no MPI found; Debian: libopenmpi-dev)")
    return()
endif()
set(TG_HAVE_MPI ON)
message(STATUS "telegrad: MPI transport with ${MPI_C_COMPILER}")

tg_part_library(mpi SOURCES src/transport/mpi.c src/transport/mpi_leave.c src/transport/mpi_nodes.c LIBRARIES MPI::MPI_C)
target_link_options(telegrad_mpi_shared PRIVATE LINKER:-z,nodelete) # MPI_Finalize calls it

if(NOT TG_TESTS)
    return()
endif()
set(TG_MPIRUN_FLAGS "")
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
if(version MATCHES "Open MPI|OpenRTE")
    set(TG_MPIRUN_FLAGS --bind-to none)
endif()

# An MPI test is a plain program, its name that of its file in tests/mpi, run with each number of ranks.
# Each rank exits with 0 if all is well.
function(tg_mpi_test name) # RANKS number... LIBRARIES name...
    cmake_parse_arguments(ARG "" "" "RANKS;LIBRARIES" ${ARGN})
    add_executable(${name} tests/mpi/${name}.c)
    target_include_directories(${name} PRIVATE tests)
    target_link_libraries(${name} PRIVATE tg_flags ${ARG_LIBRARIES})
    foreach(ranks ${ARG_RANKS})
        add_test(NAME ${name}_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} ${TG_MPIRUN_FLAGS}
            $<TARGET_FILE:${name}>)
        # MPI itself leaks, which is not ours to report.
        set_tests_properties(${name}_${ranks} PROPERTIES TIMEOUT 120 PROCESSORS ${ranks} ENVIRONMENT
            "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;ASAN_OPTIONS=detect_leaks=0")
    endforeach()
endfunction()

tg_mpi_test(transport_mpi_test RANKS 2 3 4 LIBRARIES telegrad_mpi_shared)
tg_mpi_test(channels_mpi_test RANKS 2 3 4 LIBRARIES telegrad_mpi_shared)
tg_mpi_test(leave_mpi_test RANKS 2 3 LIBRARIES telegrad_mpi_shared)
tg_mpi_test(finalize_mpi_test RANKS 2 3 LIBRARIES telegrad_mpi_shared)
# The exchanges over MPI: it reaches into the library, so it links the static one.
find_package(Threads REQUIRED)
tg_mpi_test(exchange_mpi_test RANKS 2 3 4 7 LIBRARIES telegrad_mpi_static MPI::MPI_C Threads::Threads m)
