# Build options and the flags every target is compiled with. Presets (CMakePresets.json) set the
# options.
set(PACELINE_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")
option(PACELINE_WERROR "Treat warnings as errors (CI)" OFF)
option(PACELINE_COVERAGE "Instrument for gcov" OFF)
option(PACELINE_ONEDNN
  "Kernels of oneDNN for convolutions, beside our own (x86-64; apt-get install libdnnl-dev)" OFF)
option(PACELINE_ZSTD
  "Codecs with +zstd for tensors between stages (apt-get install libzstd-dev)" ON)
option(PACELINE_FUZZ "Build the fuzz targets with libFuzzer (clang only)" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wpointer-arith
  -Wcast-qual -Wwrite-strings -Wimplicit-fallthrough -Wswitch-enum -Wformat=2 -fno-common)
# The law: no contraction of a*b+c that the source does not ask for (docs/adr).
add_compile_options(-ffp-contract=off)
# In 32-bit systems: files beyond 2 GiB, times beyond the year 2038.
add_compile_definitions(_FILE_OFFSET_BITS=64 _TIME_BITS=64)
add_compile_definitions(_GNU_SOURCE PACELINE_VERSION="${PROJECT_VERSION}")
include_directories(${CMAKE_SOURCE_DIR})

if(PACELINE_WERROR)
  add_compile_options(-Werror)
endif()
if(PACELINE_COVERAGE)
  add_compile_options(--coverage -O0)
  add_link_options(--coverage)
endif()
if(PACELINE_FUZZ)
  # Every room reports its coverage to libFuzzer, not only the fuzz target.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(PACELINE_SANITIZE)
  # Less time to build; lines in reports stay. These warnings of gcc are right at -O2 alone.
  add_compile_options(-O1 -g1)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-format-truncation -Wno-maybe-uninitialized)
  endif()
endif()
if(PACELINE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(PACELINE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(PACELINE_SANITIZE)
  message(FATAL_ERROR
    "PACELINE_SANITIZE is '${PACELINE_SANITIZE}'; expected address, thread or nothing")
else()
  add_compile_options(-D_FORTIFY_SOURCE=2 -fstack-protector-strong)
endif()
