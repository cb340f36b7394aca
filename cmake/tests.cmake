if(NOT TG_TESTS)
    return()
endif()
find_package(Threads REQUIRED)
add_library(tg_test_libs INTERFACE)
target_link_libraries(tg_test_libs INTERFACE tg_flags PkgConfig::CMOCKA Threads::Threads m)
target_include_directories(tg_test_libs INTERFACE ${PROJECT_SOURCE_DIR}/tests)
if(TG_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    # Tests compile in a third of the time. What is left out is UBSan of their own arithmetic; clang's has most of it. Less optimized,
    # they draw false warnings.
    target_compile_options(tg_test_libs INTERFACE -O1 -fno-sanitize=undefined -Wno-restrict -Wno-format-truncation)
endif()

foreach(source ${TG_ROOM_TESTS}) # they see the library from inside, so they link the static one
    get_filename_component(stem ${source} NAME_WE)
    add_executable(${stem} ${source})
    target_link_libraries(${stem} PRIVATE tg_test_libs telegrad_static)
    file(STRINGS ${source} runs_levels REGEX "each_level")
    # Those in which threads meet: what TSan is for. Kernels and codecs on cores of a pool go by parallel_test and session_threads_test;
    # session_leftover_test asks what sums lose, on the ways of session_test, at length.
    file(STRINGS ${source} meets REGEX "pthread_create|base/thread\\.h|_ranks\\.h|session_fixture\\.h|kernel/parallel\\.h")
    set(labels unit)
    if(source MATCHES "/src/(codec|feedback|kernel|method|strategy)/" OR stem STREQUAL session_bits_test)
        list(APPEND labels kernels) # at every instruction set: others call the same kernels
    endif()
    if(runs_levels)
        list(APPEND labels levels)
    endif()
    if(meets AND NOT stem STREQUAL session_leftover_test)
        list(APPEND labels threads)
    endif()
    # All of these run with clang's MSan and UBSan, which sees more than gcc's (arithmetic on null pointers); of others, those
    # without threads and levels do.
    if(source MATCHES "/src/(exchange|method|engine)/")
        list(APPEND labels exchange)
    endif()
    tg_test(${stem} LABELS ${labels})
endforeach()
# Their allocations fail when the test wants.
foreach(function malloc calloc realloc aligned_alloc strdup fopencookie)
    target_link_options(session_nomem_test PRIVATE -Wl,--wrap=${function})
endforeach()
foreach(function malloc realloc fopencookie)
    target_link_options(memstream_test PRIVATE -Wl,--wrap=${function})
endforeach()
# Its disks lose what was not synced.
foreach(function open close write pwrite ftruncate fsync fdatasync rename unlink unlinkat opendir closedir)
    target_link_options(server_chaos_test PRIVATE -Wl,--wrap=${function})
endforeach()

if(NOT TG_SANITIZE)
    find_program(TG_GFORTRAN gfortran)
    mark_as_advanced(TG_GFORTRAN)
    if(NOT TG_GFORTRAN)
        message(STATUS "telegrad: no test of the Fortran example, not found: gfortran (Debian: gfortran)")
    endif()
    add_test(NAME install_test COMMAND ${PROJECT_SOURCE_DIR}/tests/install_test.sh ${PROJECT_BINARY_DIR}
        $<$<BOOL:${TG_HAVE_MPI}>:mpi> $<$<BOOL:${TG_HAVE_NET}>:net> COMMAND_EXPAND_LISTS)
    set_tests_properties(install_test PROPERTIES TIMEOUT 300 ENVIRONMENT
        "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
endif()
# The transport that examples/ shows does what all must.
add_executable(socket_transport_test tests/socket_transport_test.c examples/socket_transport.c examples/socket_mesh.c)
target_include_directories(socket_transport_test PRIVATE include src)
target_link_libraries(socket_transport_test PRIVATE tg_test_libs telegrad_static)
tg_test(socket_transport_test TIMEOUT 120 LABELS unit threads)
# Every public function, called with arguments that make no sense: written from the headers.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
function(tg_arguments_test name library)
    file(GLOB headers CONFIGURE_DEPENDS include/telegrad/*.h)
    set(source ${PROJECT_BINARY_DIR}/${name}.c)
    add_custom_command(OUTPUT ${source} DEPENDS tests/arguments.py ${headers} VERBATIM
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/arguments.py ${source}
                ${PROJECT_SOURCE_DIR}/include/telegrad ${ARGN})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE tg_test_libs ${library})
    tg_test(${name} LABELS unit)
endfunction()
tg_arguments_test(arguments_test telegrad_shared)
foreach(part mpi net)
    if(TARGET telegrad_${part}_shared)
        tg_arguments_test(arguments_${part}_test telegrad_${part}_shared ${part})
    endif()
endforeach()
# Programs of the first version and of a newer one; and the headers, beside those of the first version.
function(tg_abi_test name)
    add_executable(${name} ${ARGN})
    target_include_directories(${name} PRIVATE tests)
    target_link_libraries(${name} PRIVATE tg_test_libs telegrad_shared)
    tg_test(${name} TIMEOUT 60 LABELS unit)
endfunction()
tg_abi_test(abi_first_test tests/abi/abi_caller.c)
target_compile_definitions(abi_first_test PRIVATE ABI_FIRST)
tg_abi_test(abi_newer_test tests/abi/abi_caller.c)
if(TARGET telegrad_net_shared)
    target_compile_definitions(abi_newer_test PRIVATE ABI_NET)
    target_link_libraries(abi_newer_test PRIVATE telegrad_net_shared)
endif()
file(GLOB abi_headers CONFIGURE_DEPENDS include/telegrad/*.h)
set(abi_layouts ${PROJECT_BINARY_DIR}/abi_layouts_first.c ${PROJECT_BINARY_DIR}/abi_layouts_now.c)
add_custom_command(OUTPUT ${abi_layouts} DEPENDS tests/abi/abi_layouts.py tests/abi/abi_first.h ${abi_headers} VERBATIM
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/abi/abi_layouts.py ${abi_layouts})
tg_abi_test(abi_layouts_test tests/abi/abi_layouts_test.c ${abi_layouts})
# What the libraries export is what the headers declare and the maps list.
if(NOT TG_SANITIZE AND NOT TG_FUZZ)
    set(other_libraries "")
    foreach(part mpi net cuda)
        if(TARGET telegrad_${part}_shared)
            list(APPEND other_libraries $<TARGET_FILE:telegrad_${part}_shared>)
        endif()
    endforeach()
    add_test(NAME symbols_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/symbols_test.py ${CMAKE_NM}
        $<TARGET_FILE:telegrad_shared> ${other_libraries})
    set_tests_properties(symbols_test PROPERTIES LABELS unit)
endif()
# The script that checks what may include what.
add_test(NAME floors_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/floors_test.py)
set_tests_properties(floors_test PROPERTIES TIMEOUT 60 LABELS unit SKIP_RETURN_CODE 77)
add_test(NAME own_floats_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/own_floats_test.py)
set_tests_properties(own_floats_test PROPERTIES TIMEOUT 60 LABELS unit)
# Ranks that differ, processes joined by it.
add_executable(mixed_job_test tests/mixed_job_test.c examples/socket_transport.c examples/socket_mesh.c)
target_include_directories(mixed_job_test PRIVATE include src)
target_link_libraries(mixed_job_test PRIVATE tg_test_libs telegrad_static)
tg_test(mixed_job_test LABELS unit kernels)
# What the golden sequences of optimizers should be.
tg_torch_test(golden_optim_test unit ${PROJECT_SOURCE_DIR}/tools/golden_optim.py --check)
include(cmake/fuzz.cmake OPTIONAL)
add_test(NAME plain_build_test COMMAND ${PROJECT_SOURCE_DIR}/tests/plain_build_test.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
set_tests_properties(plain_build_test PROPERTIES TIMEOUT 300)
# docs/adding-a-method.md, followed in a copy of the library: ctest -C full.
add_test(NAME adding_test CONFIGURATIONS full COMMAND ${PROJECT_SOURCE_DIR}/tests/adding_test.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
set_tests_properties(adding_test PROPERTIES TIMEOUT 900)
