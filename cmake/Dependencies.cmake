# The outside libraries, one imported target each. A room links the one it alone is allowed to see;
# tests/borders checks it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(library IN ITEMS jansson libmicrohttpd gnutls libcurl sqlite3 libssl libcrypto zlib
    libjpeg libpng)
  pkg_check_modules(${library} REQUIRED IMPORTED_TARGET ${library})
endforeach()
if(PACELINE_ZSTD)
  pkg_check_modules(libzstd IMPORTED_TARGET libzstd)
  if(NOT libzstd_FOUND)
    message(FATAL_ERROR
      "zstd is missing: apt-get install libzstd-dev, or build without it: -DPACELINE_ZSTD=OFF")
  endif()
endif()
pkg_check_modules(cmocka IMPORTED_TARGET cmocka)

# The serial OpenBLAS, by its own directory: our threads call it, its own threading would change
# bits and cost memory, and Debian's alternatives may point the plain name at another build.
set(OPENBLAS_DIRECTORY /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
find_library(OPENBLAS_LIBRARY openblas PATHS ${OPENBLAS_DIRECTORY} NO_DEFAULT_PATH)
find_path(OPENBLAS_INCLUDE cblas.h
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH)
if(NOT OPENBLAS_LIBRARY OR NOT OPENBLAS_INCLUDE)
  message(FATAL_ERROR "OpenBLAS is missing: apt-get install libopenblas-serial-dev")
endif()
add_library(openblas INTERFACE)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE})
target_link_libraries(openblas INTERFACE ${OPENBLAS_LIBRARY})
target_link_options(openblas INTERFACE -Wl,-rpath,${OPENBLAS_DIRECTORY})

# oneDNN by its C API. Debian's runs on GCC's OpenMP, whose threads we switch off ourselves.
if(PACELINE_ONEDNN)
  find_library(ONEDNN_LIBRARY dnnl)
  find_library(ONEDNN_OPENMP_LIBRARY NAMES libgomp.so.1)
  find_path(ONEDNN_INCLUDE dnnl.h)
  if(NOT ONEDNN_LIBRARY OR NOT ONEDNN_OPENMP_LIBRARY OR NOT ONEDNN_INCLUDE)
    message(FATAL_ERROR "oneDNN is missing: apt-get install libdnnl-dev")
  endif()
  add_library(onednn INTERFACE)
  target_include_directories(onednn SYSTEM INTERFACE ${ONEDNN_INCLUDE})
  target_link_libraries(onednn INTERFACE ${ONEDNN_LIBRARY} ${ONEDNN_OPENMP_LIBRARY})
endif()
