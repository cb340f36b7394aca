# A room is one folder of src/, an object library. Sources are found by name, so a new file needs no
# line here; *_test.c files are its unit tests; *_avx2.c, *_avx512.c and *_neon.c are for CPUs that have these.
set(TG_ROOMS "")
set(TG_ROOM_TESTS "")

# Give the *_avx2.c and *_avx512.c in the list of that name their flags; take out what other kinds of processors have.
function(tg_instruction_sets list)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
        set(avx2 "-mavx2;-mfma;-mf16c;-mbmi;-mbmi2;-mlzcnt;-mpopcnt;-msse4.2")
        set(avx512 "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;${avx2}")
        if(TG_EMULATE_AVX512)
            set(avx512 "${avx2};-isystem${PROJECT_SOURCE_DIR}/tests/avx512;-Wno-psabi")
        endif()
        foreach(source ${${list}})
            if(source MATCHES "_avx2\\.c$")
                set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx2}")
            elseif(source MATCHES "_avx512\\.c$")
                set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx512}")
            elseif(TG_EMULATE_AVX512 AND source MATCHES "/kernel/cpu\\.c$")
                set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS TG_AVX512_EMULATED)
            endif()
        endforeach()
        set(others neon)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
        set(others "avx2|avx512")
    else()
        set(others "avx2|avx512|neon")
    endif()
    list(FILTER ${list} EXCLUDE REGEX "_(${others})\\.c$")
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# tg_torch_test(name label script [argument...]): the script ends with status 0; asked of the first Python that has PyTorch
# (with status 77 it says that its own has not), skipped where none has.
function(tg_torch_test name label)
    add_test(NAME ${name} COMMAND sh -c "for python in python3 /usr/bin/python3; do
    $python \"$@\"; status=$?
    [ $status = 77 ] || exit $status; done; exit 77" sh ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

function(tg_room name)
    cmake_parse_arguments(ARG "" "" "EXCLUDE" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${name}/*.c)
    set(tests ${sources})
    list(FILTER tests INCLUDE REGEX "_test\\.c$")
    list(FILTER sources EXCLUDE REGEX "_test\\.c$")
    foreach(excluded ${ARG_EXCLUDE})
        list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${name}/${excluded})
    endforeach()
    tg_instruction_sets(sources)
    set(TG_ROOM_TESTS ${TG_ROOM_TESTS} ${tests} PARENT_SCOPE)
    set(TG_ROOMS ${TG_ROOMS} ${name} PARENT_SCOPE)
    add_library(tg_${name} OBJECT ${sources})
    target_link_libraries(tg_${name} PRIVATE tg_flags)
endfunction()

# Until 1.0 a minor version may break programs: then each has a number of its own.
set(TG_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(TG_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()

# The names of a shared library for the loader. A wheel holds no links, and one version.
function(tg_versions target)
    if(NOT SKBUILD)
        set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${TG_SOVERSION})
    endif()
endfunction()

# The shared library exports what the file lists, and nothing else.
function(tg_exports target map)
    set(map ${PROJECT_SOURCE_DIR}/${map})
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()

# libtelegrad (shared and static) out of all rooms.
function(tg_core_library)
    set(objects "")
    foreach(room ${TG_ROOMS})
        list(APPEND objects $<TARGET_OBJECTS:tg_${room}>)
    endforeach()
    find_package(Threads REQUIRED)
    foreach(kind shared static)
        string(TOUPPER ${kind} KIND)
        add_library(telegrad_${kind} ${KIND} ${objects})
        set_target_properties(telegrad_${kind} PROPERTIES OUTPUT_NAME telegrad EXPORT_NAME ${kind})
        tg_versions(telegrad_${kind})
        target_include_directories(telegrad_${kind} PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
        target_link_libraries(telegrad_${kind} PRIVATE $<BUILD_INTERFACE:tg_flags_link> PUBLIC Threads::Threads m)
    endforeach()
    tg_exports(telegrad_shared cmake/telegrad.map)
endfunction()

add_library(tg_flags_link INTERFACE)
if(TG_SANITIZE)
    target_link_options(tg_flags_link INTERFACE -fsanitize=${TG_SANITIZE})
endif()
