# What an installation holds: headers, libraries, pkg-config files, a CMake package, docs and examples; the command with its manual
# page and its completion for bash and zsh.
include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/telegrad)

set(kinds shared static)
if(SKBUILD) # the Python package: scikit-build-core takes the documents from elsewhere
    set(kinds shared)
endif()
function(tg_install_libraries) # names without _shared and _static
    foreach(name ${ARGN})
        foreach(kind ${kinds})
            install(TARGETS ${name}_${kind} EXPORT telegrad-targets
                LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
                INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
        endforeach()
    endforeach()
endfunction()

install(DIRECTORY include/telegrad DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN mpi.h EXCLUDE PATTERN net.h EXCLUDE
    PATTERN cuda.h EXCLUDE)
tg_install_libraries(telegrad)
if(TARGET telegrad)
    install(TARGETS telegrad RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET telegrad_printed)
    install(FILES ${PROJECT_BINARY_DIR}/telegrad.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${PROJECT_BINARY_DIR}/telegrad.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME telegrad)
    install(FILES ${PROJECT_BINARY_DIR}/_telegrad DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
if(NOT SKBUILD)
    install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
    install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
install(EXPORT telegrad-targets NAMESPACE telegrad:: DESTINATION ${cmake_dir})

configure_package_config_file(cmake/telegrad-config.cmake.in ${PROJECT_BINARY_DIR}/telegrad-config.cmake
    INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/telegrad-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/telegrad-config.cmake
    ${PROJECT_BINARY_DIR}/telegrad-config-version.cmake DESTINATION ${cmake_dir})

if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else() # so that an installation can be moved
    file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
    set(pc_prefix \${pcfiledir}/${pc_prefix})
endif()
foreach(dir LIBDIR INCLUDEDIR)
    set(pc_${dir} ${CMAKE_INSTALL_${dir}})
    if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
        set(pc_${dir} \${prefix}/${CMAKE_INSTALL_${dir}})
    endif()
endforeach()
configure_file(cmake/telegrad.pc.in ${PROJECT_BINARY_DIR}/telegrad.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/telegrad.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(part mpi net cuda)
    if(TARGET telegrad_${part}_shared)
        install(FILES include/telegrad/${part}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/telegrad)
        tg_install_libraries(telegrad_${part})
        configure_file(cmake/telegrad-${part}.pc.in ${PROJECT_BINARY_DIR}/telegrad-${part}.pc @ONLY)
        install(FILES ${PROJECT_BINARY_DIR}/telegrad-${part}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
endforeach()
