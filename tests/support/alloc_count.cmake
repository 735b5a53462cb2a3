# Counts allocations in the real programs (LD_PRELOAD), for tests and benchmarks; a sanitizer
# replaces malloc itself.
if(NOT TARGET alloc_count AND NOT PACELINE_SANITIZE)
  add_library(alloc_count MODULE ${CMAKE_CURRENT_LIST_DIR}/alloc_count.c)
  set_target_properties(alloc_count
    PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()
