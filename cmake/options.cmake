include(GNUInstallDirs)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

option(TG_WERROR "Warnings are errors (developers and CI)" OFF)
option(TG_FUZZ "Build the libFuzzer targets (clang)" OFF)
option(TG_TESTS "Build the tests" ON)
set(TG_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined")
set(TG_MPI AUTO CACHE STRING "MPI transport: AUTO, ON, OFF")
set(TG_TRAIN AUTO CACHE STRING "Trainer and command on oneDNN: AUTO, ON, OFF")

add_library(tg_options INTERFACE)
target_compile_definitions(tg_options INTERFACE _GNU_SOURCE)
target_compile_options(tg_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wmissing-prototypes -Wstrict-prototypes
    -Wundef -ffp-contract=off -fno-math-errno)
target_include_directories(tg_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(TG_WERROR)
    target_compile_options(tg_options INTERFACE -Werror)
endif()
if(TG_SANITIZE)
    target_compile_options(tg_options INTERFACE -fsanitize=${TG_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(tg_options INTERFACE -fsanitize=${TG_SANITIZE})
endif()
if(TG_FUZZ)
    target_compile_options(tg_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The library sees its rooms; the programs (trainer, report, command), which have a folder each at the top, do not: they see
# include/telegrad and each other.
add_library(tg_flags INTERFACE)
target_link_libraries(tg_flags INTERFACE tg_options)
target_include_directories(tg_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
add_library(tg_program_flags INTERFACE)
target_link_libraries(tg_program_flags INTERFACE tg_options)
target_include_directories(tg_program_flags INTERFACE ${PROJECT_SOURCE_DIR})
