# What `cmake --install build/PRESET [--prefix DIR]` installs: the programs of the configured rooms,
# the manual page and completions of the command line, tools for trained models, documents,
# examples and the licence.
include(GNUInstallDirs)

foreach(program IN ITEMS paceline paceline-agent paceline-coordinator)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET paceline)
  install(FILES cli/pages/paceline.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES cli/pages/paceline.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME paceline)
  install(FILES cli/pages/_paceline DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES cli/pages/paceline.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES README.md CHANGELOG.md LICENSE schema/openapi.yaml
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY tools/ DESTINATION ${CMAKE_INSTALL_DATADIR}/paceline/tools USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.py")
