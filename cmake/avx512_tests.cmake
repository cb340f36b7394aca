# What AVX-512 is tested with where it is emulated (TG_EMULATE_AVX512): the label and the target avx512_tests.
foreach(test kernel_test kernel_codes_test kernel_known_test pack_test parallel_test skinny_test golden_test golden_blocks_test
        golden_signs_test golden_strom_test optimizer_golden_test session_bits_test mixed_job_test)
    set_property(TEST ${test} APPEND PROPERTY LABELS avx512)
    tg_built_for(${test} avx512)
endforeach()
