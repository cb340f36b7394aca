# They begin first, so that the others fill the cores while these wait.
foreach(test adding_test channels_test coder_emulated_test completion_test context_test decode_emulated_test docs_test faults_test hosting_rounds_test keeping_test
        lab_full_test mnist_full_test net_resume_test net_trouble_test python_ddp_node_test python_ddp_test python_wheel_test python_examples_test relay_test
        sent_server_test server_chaos_test session_nomem_test session_stretches_test session_takeover_test session_test session_threads_test tcp_test)
    if(TEST ${test})
        set_tests_properties(${test} PROPERTIES COST 100)
    endif()
endforeach()
