# libtelegrad-net: keys and the TCP transport, apart from the core so that the core needs no OpenSSL.
# TG_NET: AUTO builds it if OpenSSL 3 is there, ON demands it, OFF leaves it out.
# Sets TG_HAVE_NET.
set(TG_HAVE_NET OFF)
if(TG_NET STREQUAL "OFF")
    return()
endif()
if(TG_NET STREQUAL "ON")
    find_package(OpenSSL 3 REQUIRED COMPONENTS SSL Crypto)
else()
    find_package(OpenSSL 3 QUIET COMPONENTS SSL Crypto)
endif()
if(NOT OPENSSL_FOUND)
    message(STATUS "telegrad: no TCP transport (no OpenSSL 3 found; Debian: libssl-dev)")
    return()
endif()
set(TG_HAVE_NET ON)

file(GLOB net_sources CONFIGURE_DEPENDS src/net/*.c)
set(net_tests ${net_sources})
list(FILTER net_tests INCLUDE REGEX "_test\\.c$")
list(FILTER net_sources EXCLUDE REGEX "_test\\.c$")
tg_part_library(net SOURCES ${net_sources} INSIDE OpenSSL::SSL OpenSSL::Crypto)
# A function's address that is looked up at its first call leaves a copy of all registers, and so of keys.
foreach(kind shared static)
    target_link_options(telegrad_net_${kind} PRIVATE -Wl,-z,now INTERFACE $<BUILD_INTERFACE:-Wl,-z,now>)
endforeach()
target_link_options(telegrad_net_shared PRIVATE LINKER:-z,nodelete) # threads that look up names, and fork(), call it

if(NOT TG_TESTS)
    return()
endif()
foreach(source ${net_tests}) # they see the library from inside, so they link the static one
    get_filename_component(stem ${source} NAME_WE)
    add_executable(${stem} ${source})
    target_link_libraries(${stem} PRIVATE tg_test_libs telegrad_net_static)
    set(labels unit)
    if(NOT stem MATCHES "^(bad_member|flood|slow_message)_test$") # long, and threads hardly meet in them
        list(APPEND labels threads)
    endif()
    tg_test(${stem} LABELS ${labels})
endforeach()
# Ranks that are processes, in namespaces where these can be made.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_executable(net_play tests/net/net_play.c)
target_link_libraries(net_play PRIVATE tg_program_flags telegrad_net_static)
file(GLOB net_process_tests CONFIGURE_DEPENDS tests/net/*_test.py)
foreach(test ${net_process_tests})
    get_filename_component(stem ${test} NAME_WE)
    add_test(NAME ${stem} COMMAND ${Python3_EXECUTABLE} ${test} $<TARGET_FILE:net_play>)
    set_tests_properties(${stem} PROPERTIES TIMEOUT 300 LABELS net)
endforeach()
