if(NOT TG_TESTS)
    return()
endif()
enable_testing()
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
add_library(tg_test_libs INTERFACE)
target_link_libraries(tg_test_libs INTERFACE tg_flags PkgConfig::CMOCKA Threads::Threads m)
target_include_directories(tg_test_libs INTERFACE ${PROJECT_SOURCE_DIR}/tests)

foreach(stem ${TG_ROOM_TESTS})
    add_executable(${stem} ${TG_TEST_${stem}})
    target_link_libraries(${stem} PRIVATE tg_test_libs)
    add_test(NAME ${stem} COMMAND ${stem})
    list(GET TG_TEST_${stem} 0 source)
    file(STRINGS ${source} runs_levels REGEX "each_level")
    set_tests_properties(${stem} PROPERTIES TIMEOUT 300 LABELS "unit$<$<BOOL:${runs_levels}>:;levels>")
endforeach()

if(NOT TG_SANITIZE)
    add_test(NAME install_test COMMAND ${PROJECT_SOURCE_DIR}/tests/install_test.sh ${PROJECT_BINARY_DIR}
        $<$<BOOL:${TG_HAVE_MPI}>:mpi>)
    set_tests_properties(install_test PROPERTIES TIMEOUT 300 ENVIRONMENT
        "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
endif()
# What the golden sequences of optimizers should be.
tg_torch_test(golden_optim_test unit ${PROJECT_SOURCE_DIR}/tools/golden_optim.py --check)
include(cmake/fuzz.cmake OPTIONAL)
