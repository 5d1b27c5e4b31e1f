# What `cmake --install` and packages put where: the program, its man page, completions, schemas, notices.
include(GNUInstallDirs)
install(TARGETS rhrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES docs/rhrun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rhrun/schema FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE CHANGELOG.md third_party/NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The completions are what the program prints. It may be of another machine: then one of this machine is asked, or none.
set(RHRUN_COMPLETIONS_BY "" CACHE FILEPATH "an rhrun that runs on this machine and prints the completions; default: the one that is built")
set(asked ${RHRUN_COMPLETIONS_BY})
if(NOT asked AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(asked ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:rhrun>)
endif()
if(asked)
  set(folder ${CMAKE_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(TARGET rhrun POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DRHRUN=${asked}" -DFOLDER=${folder} -P ${CMAKE_SOURCE_DIR}/cmake/completions.cmake)
  install(FILES ${folder}/rhrun DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/_rhrun DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${folder}/rhrun.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
