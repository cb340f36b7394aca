# libtelegrad-cuda: vectors in the memory of NVIDIA GPUs, apart from the core so that the core needs no CUDA.
# TG_CUDA: AUTO builds it if CUDA's compiler is there, ON demands it, OFF leaves it out.
# Sets TG_HAVE_CUDA. The same sources as C++ on the host, where CUDA is emulated: telegrad_cuda_emulated, for tests; this needs
# a C++ compiler only.
set(TG_HAVE_CUDA OFF)
file(GLOB cuda_sources CONFIGURE_DEPENDS cuda/*.c)
file(GLOB cuda_kernels CONFIGURE_DEPENDS cuda/*.cu)

# ---- the library -----------------------------------------------------------------------------------------------------

# Not enable_language(CUDA): it wants to link and run programs, and C++. Each kernel file is one call of nvcc.
if(NOT TG_CUDA STREQUAL "OFF")
    find_program(TG_NVCC nvcc HINTS $ENV{CUDACXX} $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
    if(DEFINED ENV{CUDACXX} AND EXISTS "$ENV{CUDACXX}")
        set(TG_NVCC $ENV{CUDACXX})
    endif()
    set(missing "")
    if(TG_NVCC)
        get_filename_component(cuda_bin ${TG_NVCC} REALPATH)
        get_filename_component(cuda_bin ${cuda_bin} DIRECTORY)
        get_filename_component(cuda_root ${cuda_bin} DIRECTORY)
        find_path(TG_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include
            ${cuda_root}/targets/sbsa-linux/include)
        find_library(TG_CUDART cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib ${cuda_root}/targets/x86_64-linux/lib
            ${cuda_root}/targets/sbsa-linux/lib)
    endif()
    mark_as_advanced(TG_NVCC TG_CUDA_INCLUDE TG_CUDART)
    if(NOT TG_NVCC)
        set(missing "nvcc (NVIDIA's CUDA toolkit)")
    elseif(NOT TG_CUDA_INCLUDE OR NOT TG_CUDART)
        set(missing "cuda_runtime_api.h and libcudart_static.a of ${TG_NVCC}")
    endif()
    if(missing AND TG_CUDA STREQUAL "ON")
        message(FATAL_ERROR "TG_CUDA=ON, but not found: ${missing}")
    elseif(missing)
        message(STATUS "telegrad: no GPUs, not found: ${missing}")
    elseif((CMAKE_CROSSCOMPILING OR TG_SANITIZE OR TG_FUZZ) AND TG_CUDA STREQUAL "ON")
        message(FATAL_ERROR "TG_CUDA=ON in a cross build or with sanitizers: allowed: OFF, AUTO")
    elseif(CMAKE_CROSSCOMPILING OR TG_SANITIZE OR TG_FUZZ)
        message(STATUS "telegrad: no GPUs in a cross build or with sanitizers")
    else()
        set(TG_HAVE_CUDA ON)
    endif()
endif()

if(TG_HAVE_CUDA)
    foreach(variable NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS) # nvcc reads them; not all can be overridden, so they are refused
        if("$ENV{${variable}}" MATCHES "fast_math|(fmad|ftz)[= ]*true|prec-(div|sqrt)[= ]*false")
            message(FATAL_ERROR "${variable}=$ENV{${variable}}: it would change bits: allowed: without ${CMAKE_MATCH_0}")
        endif()
    endforeach()
    get_filename_component(TG_CUDART_DIR ${TG_CUDART} DIRECTORY) # for telegrad-cuda.pc
    if(NOT CMAKE_CUDA_ARCHITECTURES) # the drivers of other GPUs, from Ampere on, translate the first one's code when it is loaded
        set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    set(generate "")
    foreach(arch ${CMAKE_CUDA_ARCHITECTURES})
        if(NOT arch MATCHES "^[0-9]+[af]?$")
            message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=${CMAKE_CUDA_ARCHITECTURES}: allowed: numbers, such as 80;90")
        endif()
        list(APPEND generate -gencode=arch=compute_${arch},code=sm_${arch})
    endforeach()
    list(GET CMAKE_CUDA_ARCHITECTURES 0 oldest)
    list(APPEND generate -gencode=arch=compute_${oldest},code=compute_${oldest})
    message(STATUS "telegrad: GPUs with ${TG_NVCC}, architectures ${CMAKE_CUDA_ARCHITECTURES}")

    set(objects "")
    foreach(kernel ${cuda_kernels})
        get_filename_component(stem ${kernel} NAME_WE)
        set(object ${PROJECT_BINARY_DIR}/cuda/${stem}.o)
        # No fused multiply-add: a * b + c rounds twice, as on the host.
        add_custom_command(OUTPUT ${object} DEPENDS ${kernel} DEPFILE ${object}.d VERBATIM
            COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
            COMMAND ${TG_NVCC} -std=c++17 -O3 -fmad=false ${generate} --threads 0
                    -Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off
                    -I${PROJECT_SOURCE_DIR}/cuda -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
                    -MD -MF ${object}.d -MT ${object} -c ${kernel} -o ${object}
            COMMENT "Compiling cuda/${stem}.cu")
        set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
        list(APPEND objects ${object})
    endforeach()
    add_custom_target(tg_cuda_kernels DEPENDS ${objects})

    add_library(tg_cuda OBJECT ${cuda_sources})
    target_include_directories(tg_cuda PRIVATE ${PROJECT_SOURCE_DIR}/cuda)
    target_include_directories(tg_cuda SYSTEM PRIVATE ${TG_CUDA_INCLUDE})
    target_link_libraries(tg_cuda PRIVATE tg_flags)
    foreach(kind shared static)
        string(TOUPPER ${kind} KIND)
        add_library(telegrad_cuda_${kind} ${KIND} $<TARGET_OBJECTS:tg_cuda> ${objects})
        add_library(telegrad::cuda_${kind} ALIAS telegrad_cuda_${kind})
        set_target_properties(telegrad_cuda_${kind} PROPERTIES OUTPUT_NAME telegrad-cuda EXPORT_NAME cuda_${kind}
            LINKER_LANGUAGE C)
        tg_versions(telegrad_cuda_${kind})
        add_dependencies(telegrad_cuda_${kind} tg_cuda_kernels)
        target_link_libraries(telegrad_cuda_${kind} PUBLIC telegrad_${kind}
            PRIVATE $<BUILD_INTERFACE:tg_flags_link> $<BUILD_INTERFACE:${TG_CUDART}> $<INSTALL_INTERFACE:CUDA::cudart_static> stdc++ ${CMAKE_DL_LIBS} rt Threads::Threads)
    endforeach()
    tg_exports(telegrad_cuda_shared cmake/telegrad-cuda.map)
    target_link_options(telegrad_cuda_shared PRIVATE -Wl,--no-undefined) # it sees only what libtelegrad exports
    add_dependencies(product telegrad_cuda_shared telegrad_cuda_static)

    foreach(program bench_coders bench_reducers) # docs/results/gpu.md
        add_executable(${program} bench/cuda/${program}.c)
        target_link_libraries(${program} PRIVATE tg_program_flags tg_flags telegrad_cuda_static telegrad_static Threads::Threads m)
        target_include_directories(${program} SYSTEM PRIVATE ${TG_CUDA_INCLUDE})
    endforeach()
endif()

# ---- the emulation ---------------------------------------------------------------------------------------------------

if(NOT TG_TESTS)
    return()
endif()
if(TG_SANITIZE OR TG_FUZZ OR CMAKE_CROSSCOMPILING)
    return() # threads of a block are fibers, which sanitizers and QEMU do not know
endif()
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
    message(STATUS "telegrad: no tests of the GPU's kernels in emulation, not found: a C++ compiler (Debian: g++)")
    return()
endif()
enable_language(CXX)

add_library(tg_cuda_emulated_host OBJECT ${cuda_sources})
target_include_directories(tg_cuda_emulated_host PRIVATE ${PROJECT_SOURCE_DIR}/cuda)
target_include_directories(tg_cuda_emulated_host SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
target_link_libraries(tg_cuda_emulated_host PRIVATE tg_flags)
set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX)
add_library(telegrad_cuda_emulated STATIC ${cuda_kernels} tests/cuda/emulated_cuda.cc tests/cuda/emulated_runtime.cc $<TARGET_OBJECTS:tg_cuda_emulated_host>)
set_target_properties(telegrad_cuda_emulated PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
target_compile_definitions(telegrad_cuda_emulated PRIVATE TG__CUDA_EMULATED=1)
target_compile_options(telegrad_cuda_emulated PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-unknown-pragmas;${TG_SAME_BITS};-O2>)
target_include_directories(telegrad_cuda_emulated PRIVATE cuda tests/cuda src include)
target_link_libraries(telegrad_cuda_emulated PUBLIC telegrad_static)

# A test, in the emulation and (NAME_gpu_test) on a GPU; there it says by status 77 that there is none.
function(tg_cuda_test source)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" stem ${name})
    add_executable(${stem}_emulated_test ${source})
    target_link_libraries(${stem}_emulated_test PRIVATE tg_test_libs telegrad_cuda_emulated)
    target_include_directories(${stem}_emulated_test SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
    tg_test(${stem}_emulated_test TIMEOUT 900 LABELS cuda)
    if(TG_HAVE_CUDA)
        add_executable(${stem}_gpu_test ${source})
        target_link_libraries(${stem}_gpu_test PRIVATE tg_test_libs telegrad_cuda_static)
        target_include_directories(${stem}_gpu_test SYSTEM PRIVATE ${TG_CUDA_INCLUDE})
        tg_test(${stem}_gpu_test TIMEOUT 300 LABELS cuda)
        set_tests_properties(${stem}_gpu_test PROPERTIES SKIP_RETURN_CODE 77)
    endif()
endfunction()
# The example, in the emulation.
add_executable(gpu_mean_emulated examples/gpu_mean.c)
target_link_libraries(gpu_mean_emulated PRIVATE telegrad_cuda_emulated Threads::Threads m)
target_include_directories(gpu_mean_emulated SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
tg_test(gpu_mean_emulated LABELS cuda)
set_tests_properties(gpu_mean_emulated PROPERTIES PASS_REGULAR_EXPRESSION "13[0-9] times fewer bytes")
# Calls of CUDA that fail.
add_executable(device_failures_emulated tests/cuda/device_failures.c)
target_link_libraries(device_failures_emulated PRIVATE tg_test_libs telegrad_cuda_emulated)
target_include_directories(device_failures_emulated SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda)
foreach(call Malloc Free HostAlloc FreeHost MemcpyAsync MemsetAsync StreamSynchronize StreamCreateWithFlags StreamWaitEvent
        EventRecord)
    target_link_options(device_failures_emulated PRIVATE -Wl,--wrap=cuda${call})
endforeach()
tg_test(device_failures_emulated LABELS cuda)
file(GLOB cuda_tests CONFIGURE_DEPENDS tests/cuda/*_test.c)
foreach(test ${cuda_tests})
    tg_cuda_test(${test})
endforeach()
