# telegrad.1, from what the command itself says: cmake -DTELEGRAD=... -DVERSION=... -DOUT=... -P man.cmake
function(screen title)
    execute_process(COMMAND ${TELEGRAD} ${ARGN} --help OUTPUT_VARIABLE text RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "telegrad ${ARGN} --help: exit status ${status}")
    endif()
    string(REPLACE "\\" "\\e" text "${text}")
    string(REPLACE "-" "\\-" text "${text}")
    string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
    file(APPEND ${OUT} ".SH ${title}\n.nf\n${text}.fi\n")
endfunction()

file(WRITE ${OUT} ".TH TELEGRAD 1 \"\" \"telegrad ${VERSION}\" \"User Commands\"
.SH NAME
telegrad \\- train over slow links, by compressed and delayed gradient exchange
.SH DESCRIPTION
One section for each command, as it describes itself.
")
screen(COMMANDS)
foreach(command train compare eval methods strategies exchanges codecs feedbacks optimizers lr-schedules models data advise report)
    string(TOUPPER ${command} title)
    screen("TELEGRAD ${title}" ${command})
endforeach()
foreach(part codec train exchange strategy)
    string(TOUPPER ${part} title)
    screen("TELEGRAD BENCH ${title}" bench ${part})
endforeach()
