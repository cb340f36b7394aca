# Benchmarks: one program for each bench/*.c, linked like a unit test. Build them in the release preset.
if(NOT TG_TESTS)
    return()
endif()
set(TG_BENCH_kernels base kernel)

foreach(stem kernels)
    set(objects "")
    foreach(room ${TG_BENCH_${stem}})
        list(APPEND objects $<TARGET_OBJECTS:tg_${room}>)
    endforeach()
    add_executable(bench_${stem} bench/${stem}.c ${objects})
    target_link_libraries(bench_${stem} PRIVATE tg_flags Threads::Threads m)
endforeach()
