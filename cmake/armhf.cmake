# Toolchain: 32-bit ARM (Debian's armhf: ARMv7 with VFPv3, little-endian) by Debian's cross compiler
# and a private root with the libraries, made by deploy/armhf-root.sh; PACELINE_ARMHF_ROOT says
# where. What is built here runs under qemu-user.
set(PACELINE_ARMHF_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/armhf-root
  CACHE PATH "The root that deploy/armhf-root.sh made")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PACELINE_ARMHF_ROOT)
get_filename_component(CMAKE_SYSROOT ${PACELINE_ARMHF_ROOT} REALPATH)
if(NOT EXISTS ${CMAKE_SYSROOT}/usr/include)
  message(FATAL_ERROR
    "${PACELINE_ARMHF_ROOT} is no root for armhf: deploy/armhf-root.sh ${PACELINE_ARMHF_ROOT}")
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE arm-linux-gnueabihf)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm-static -L ${CMAKE_SYSROOT})

set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/arm-linux-gnueabihf/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
