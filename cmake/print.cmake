# Run as a script by a build step: what the command prints becomes a file.
#   cmake -DTELEGRAD=... "-DARGUMENTS=help;--man" -DOUT=... -P print.cmake
execute_process(COMMAND ${TELEGRAD} ${ARGUMENTS} OUTPUT_FILE ${OUT} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    file(REMOVE ${OUT})
    message(FATAL_ERROR "telegrad ${ARGUMENTS}: exit status ${status}")
endif()
