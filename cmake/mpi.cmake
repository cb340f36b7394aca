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

add_library(tg_mpi OBJECT src/transport/mpi.c src/transport/mpi_leave.c src/transport/mpi_nodes.c)
target_link_libraries(tg_mpi PRIVATE tg_flags MPI::MPI_C)
foreach(kind shared static)
    string(TOUPPER ${kind} KIND)
    add_library(telegrad_mpi_${kind} ${KIND} $<TARGET_OBJECTS:tg_mpi>)
    set_target_properties(telegrad_mpi_${kind} PROPERTIES OUTPUT_NAME telegrad-mpi
        EXPORT_NAME mpi_${kind} VERSION ${PROJECT_VERSION} SOVERSION ${TG_SOVERSION})
    target_link_libraries(telegrad_mpi_${kind} PRIVATE $<BUILD_INTERFACE:tg_flags_link>
        PUBLIC telegrad_${kind} MPI::MPI_C)
endforeach()
tg_exports(telegrad_mpi_shared cmake/telegrad-mpi.map)
add_dependencies(product telegrad_mpi_shared telegrad_mpi_static)
target_link_options(telegrad_mpi_shared PRIVATE LINKER:-z,nodelete) # MPI_Finalize calls it

if(NOT TG_TESTS)
    return()
endif()
enable_testing()
set(TG_MPIRUN_FLAGS "")
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
if(version MATCHES "Open MPI|OpenRTE")
    set(TG_MPIRUN_FLAGS --bind-to none)
endif()

# An MPI test is a plain program, its name that of its file in tests/mpi, run with each number of ranks.
# Each rank exits with 0 if all is well.
function(tg_mpi_test name)
    add_executable(${name} tests/mpi/${name}.c)
    target_include_directories(${name} PRIVATE tests)
    target_link_libraries(${name} PRIVATE tg_flags telegrad_mpi_shared)
    foreach(ranks ${ARGN})
        add_test(NAME ${name}_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} ${TG_MPIRUN_FLAGS}
            $<TARGET_FILE:${name}>)
        # MPI itself leaks, which is not ours to report.
        set_tests_properties(${name}_${ranks} PROPERTIES TIMEOUT 120 PROCESSORS ${ranks} ENVIRONMENT
            "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;ASAN_OPTIONS=detect_leaks=0")
    endforeach()
endfunction()

tg_mpi_test(transport_mpi_test 2 3 4)
target_include_directories(transport_mpi_test PRIVATE tests)
tg_mpi_test(channels_mpi_test 2 3 4)
tg_mpi_test(leave_mpi_test 2 3)
tg_mpi_test(finalize_mpi_test 2 3)
