# The exchanges over MPI. Include after mpi.cmake. The test reaches into the library, so it links the
# static one.
if(NOT TG_TESTS OR NOT TG_HAVE_MPI)
    return()
endif()
find_package(Threads REQUIRED)
add_executable(exchange_mpi_test tests/mpi/exchange_mpi_test.c)
target_include_directories(exchange_mpi_test PRIVATE tests)
target_link_libraries(exchange_mpi_test PRIVATE tg_flags telegrad_mpi_static MPI::MPI_C Threads::Threads m)
foreach(ranks 2 3 4 7)
    add_test(NAME exchange_mpi_test_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks}
        ${TG_MPIRUN_FLAGS} $<TARGET_FILE:exchange_mpi_test>)
    # MPI itself leaks, which is not ours to report.
    set_tests_properties(exchange_mpi_test_${ranks} PROPERTIES TIMEOUT 120 PROCESSORS ${ranks}
        ENVIRONMENT
        "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;ASAN_OPTIONS=detect_leaks=0")
endforeach()
