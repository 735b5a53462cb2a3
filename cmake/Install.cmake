# What `cmake --install build/PRESET [--prefix DIR]` installs: the programs of the configured rooms
# and their manual pages, the services with their users and examples of their options, the
# completions of the command line, tools for trained models, documents, examples and the licence.
include(GNUInstallDirs)
set(PACELINE_UNIT_DIR lib/systemd/system CACHE STRING "Where systemd's units are installed")

foreach(program IN ITEMS paceline paceline-agent paceline-coordinator)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
# The prefix is known when the files are installed: the units name it.
foreach(service IN ITEMS coordinator agent)
  if(TARGET paceline-${service})
    install(FILES deploy/man/paceline-${service}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES deploy/systemd/paceline-${service}.sysusers DESTINATION lib/sysusers.d
      RENAME paceline-${service}.conf)
    install(CODE "
      set(SERVICE ${service})
      set(DEPLOY \"${CMAKE_SOURCE_DIR}/deploy\")
      set(WORK \"${CMAKE_BINARY_DIR}/units\")
      set(UNIT_DIR \"${PACELINE_UNIT_DIR}\")
      set(CMAKE_INSTALL_FULL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
      set(CMAKE_INSTALL_FULL_SYSCONFDIR \"${CMAKE_INSTALL_SYSCONFDIR}\")
      include(\"${CMAKE_SOURCE_DIR}/cmake/install_service.cmake\")")
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
