# The files of `cmake --install` and of packages: the program, its man page, completions, schemas, notices.
include(GNUInstallDirs)
install(TARGETS rhrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES docs/rhrun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rhrun/schema FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE CHANGELOG.md third_party/NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(completions ${CMAKE_SOURCE_DIR}/src/cli/completion)
install(FILES ${completions}/rhrun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rhrun)
install(FILES ${completions}/rhrun.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _rhrun)
install(FILES ${completions}/rhrun.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
