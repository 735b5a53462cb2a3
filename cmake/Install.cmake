# What `cmake --install build/PRESET [--prefix DIR]` installs: the programs of the configured rooms,
# tools for trained models, documents, examples and the licence.
include(GNUInstallDirs)

foreach(program IN ITEMS paceline paceline-agent paceline-coordinator)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES README.md CHANGELOG.md LICENSE schema/openapi.yaml
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY tools/ DESTINATION ${CMAKE_INSTALL_DATADIR}/paceline/tools USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.py")
