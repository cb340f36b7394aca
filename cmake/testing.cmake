# How tests are declared.

# The target LABEL_tests builds the programs of the tests with this label, unit_not_threads_tests those that have the label unit and
# not threads.
function(tg_built_for program) # labels
    set(groups ${ARGN})
    if("unit" IN_LIST groups AND NOT "threads" IN_LIST groups)
        list(APPEND groups unit_not_threads)
    endif()
    foreach(group ${groups})
        if(NOT TARGET ${group}_tests)
            add_custom_target(${group}_tests)
        endif()
        add_dependencies(${group}_tests ${program})
    endforeach()
endfunction()

# tg_test(name [TIMEOUT seconds] LABELS label...): a program that ends with status 0.
function(tg_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 300)
        if(CMAKE_CROSSCOMPILING) # QEMU is slow
            set(ARG_TIMEOUT 900)
        endif()
    endif()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
    tg_built_for(${name} ${ARG_LABELS})
endfunction()

# tg_program_tests(SOURCES file... LIBRARIES name... LABELS label...): unit tests of a program's parts, one a file.
function(tg_program_tests)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
    foreach(source ${ARG_SOURCES})
        get_filename_component(stem ${source} NAME_WE)
        add_executable(${stem} ${source})
        target_link_libraries(${stem} PRIVATE tg_program_flags ${ARG_LIBRARIES} telegrad_static PkgConfig::CMOCKA
            Threads::Threads m)
        tg_test(${stem} LABELS ${ARG_LABELS})
    endforeach()
endfunction()

# tg_torch_test(name label script [argument...]): the script ends with status 0; asked of the first Python that has PyTorch
# (with status 77 it says that its own has not), skipped where none has.
function(tg_torch_test name label)
    add_test(NAME ${name} COMMAND sh -c "for python in python3 /usr/bin/python3; do
    $python \"$@\"; status=$?
    [ $status = 77 ] || exit $status; done; exit 77" sh ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()
