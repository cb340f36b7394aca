# The Python package, python/telegrad, over the libraries of this build. Its wheel is built by pip (pyproject.toml).
if(NOT TG_HAVE_NET OR NOT (TG_TESTS OR SKBUILD))
    return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB headers CONFIGURE_DEPENDS include/telegrad/*.h)
set(binding ${PROJECT_SOURCE_DIR}/python/telegrad/_c.py)
add_custom_command(OUTPUT ${binding} DEPENDS tools/python_binding.py ${headers} VERBATIM
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/python_binding.py)
add_custom_target(python_binding ALL DEPENDS ${binding})
if(SKBUILD OR TG_SANITIZE OR TG_FUZZ OR CMAKE_CROSSCOMPILING)
    return()
endif()
set(python_environment "PYTHONPATH=${PROJECT_SOURCE_DIR}/python;TELEGRAD_LIBRARY_DIR=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
function(tg_python_test name)
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS python ENVIRONMENT "${python_environment}")
endfunction()

add_test(NAME python_binding_test
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/binding_test.py ${CMAKE_C_COMPILER})
tg_python_test(python_binding_test)
add_test(NAME python_joining_test
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/joining_test.py)
tg_python_test(python_joining_test)
add_test(NAME python_signals_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/signals_test.py)
tg_python_test(python_signals_test)
# With PyTorch if a Python has it; else the same without its tensors.
add_test(NAME python_reducer_test COMMAND sh -c "for python in $TELEGRAD_PYTHON /usr/bin/python3; do
    $python -c 'import torch' 2>/dev/null && exec $python \"$1\"; done; exec \"$2\" \"$1\"" sh
    ${PROJECT_SOURCE_DIR}/tests/python/reducer_test.py ${Python3_EXECUTABLE})
tg_python_test(python_reducer_test)
# tg_python_torch_test(name script [CONFIGURATIONS full]): asked of the first Python that has PyTorch; skipped where none has.
function(tg_python_torch_test name script)
    add_test(NAME ${name} ${ARGN} COMMAND sh -c "for python in $TELEGRAD_PYTHON python3 /usr/bin/python3; do
        $python \"$1\"; status=$?
        [ $status = 77 ] || exit $status; done; exit 77" sh ${PROJECT_SOURCE_DIR}/tests/python/${script})
    tg_python_test(${name})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
tg_python_torch_test(python_ddp_test ddp_test.py)
tg_python_torch_test(python_ddp_node_test ddp_node_test.py)
tg_python_torch_test(python_ddp_gpu_test ddp_gpu_test.py)
tg_python_torch_test(python_network_test network_test.py)
tg_python_torch_test(python_fsdp_test fsdp_test.py)
tg_python_torch_test(python_local_test local_test.py)
tg_python_torch_test(python_local_refused_test local_refused_test.py)
tg_python_torch_test(python_server_test server_test.py)
tg_python_torch_test(python_takeover_test takeover_test.py)
tg_python_torch_test(python_examples_test examples_test.py)
tg_python_torch_test(python_machines_test machines_test.py)
tg_python_torch_test(python_package_test package_test.py)
tg_python_torch_test(python_ddp_full_test ddp_full_test.py CONFIGURATIONS full)
tg_python_torch_test(python_integrations_test integrations_test.py CONFIGURATIONS full)
set_tests_properties(python_ddp_full_test python_integrations_test PROPERTIES TIMEOUT 900)
# The wheel, in an environment of its own: ctest -C full. Skipped where pip finds no scikit-build-core.
add_test(NAME python_wheel_test CONFIGURATIONS full
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/wheel_test.py ${PROJECT_SOURCE_DIR})
set_tests_properties(python_wheel_test PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
