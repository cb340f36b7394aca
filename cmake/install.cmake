# What an installation holds: headers, libraries, pkg-config files, a CMake package, docs and examples; the command with its manual
# page and its completion for bash and zsh.
include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/telegrad)

install(DIRECTORY include/telegrad DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN mpi.h EXCLUDE)
install(TARGETS telegrad_shared telegrad_static EXPORT telegrad-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TG_HAVE_MPI)
    install(FILES include/telegrad/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/telegrad)
    install(TARGETS telegrad_mpi_shared telegrad_mpi_static EXPORT telegrad-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(TARGET telegrad)
    install(TARGETS telegrad RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET telegrad_printed)
    install(FILES ${PROJECT_BINARY_DIR}/telegrad.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${PROJECT_BINARY_DIR}/telegrad.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME telegrad)
    install(FILES ${PROJECT_BINARY_DIR}/_telegrad DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT telegrad-targets NAMESPACE telegrad:: DESTINATION ${cmake_dir})

configure_package_config_file(cmake/telegrad-config.cmake.in ${PROJECT_BINARY_DIR}/telegrad-config.cmake
    INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/telegrad-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/telegrad-config.cmake
    ${PROJECT_BINARY_DIR}/telegrad-config-version.cmake DESTINATION ${cmake_dir})

file(RELATIVE_PATH prefix_from_pc /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p) # so that an installation can be moved
configure_file(cmake/telegrad.pc.in ${PROJECT_BINARY_DIR}/telegrad.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/telegrad.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TG_HAVE_MPI)
    configure_file(cmake/telegrad-mpi.pc.in ${PROJECT_BINARY_DIR}/telegrad-mpi.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/telegrad-mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
