# Install the units and the options of one service; run by `cmake --install` (Install.cmake).
# Relative directories are below the prefix. Options that somebody may have changed are left alone.
foreach(directory IN ITEMS UNIT_DIR CMAKE_INSTALL_FULL_BINDIR CMAKE_INSTALL_FULL_SYSCONFDIR)
  cmake_path(ABSOLUTE_PATH ${directory} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
endforeach()

file(GLOB units "${DEPLOY}/systemd/paceline-${SERVICE}.*.in")
foreach(unit IN LISTS units)
  cmake_path(GET unit STEM LAST_ONLY name) # without .in
  configure_file("${unit}" "${WORK}/${name}" @ONLY)
  file(INSTALL "${WORK}/${name}" DESTINATION "${UNIT_DIR}")
endforeach()

if(NOT EXISTS "$ENV{DESTDIR}${CMAKE_INSTALL_FULL_SYSCONFDIR}/paceline/${SERVICE}.conf")
  file(INSTALL "${DEPLOY}/etc/${SERVICE}.conf"
    DESTINATION "${CMAKE_INSTALL_FULL_SYSCONFDIR}/paceline")
endif()
