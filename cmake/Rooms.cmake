# How a room says what it is made of. Every room has a CMakeLists.txt with one of these calls a
# target.

# paceline_library(NAME SOURCES a.c ... [LINKS public targets ...] [PRIVATE targets ...])
function(paceline_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE})
endfunction()

# paceline_embed(SYMBOL files ...): SYMBOL.c in the build directory, a source of a library of the
# same directory. It defines `const struct embedded SYMBOL[]` (base/embedded.h), in the order given.
function(paceline_embed symbol)
  set(files ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSYMBOL=${symbol} "-DFILES=${files}" -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding ${symbol}"
    VERBATIM)
endfunction()

# paceline_program(NAME SOURCES main.c ... LINKS ...): build/<preset>/bin/NAME
function(paceline_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
endfunction()

# How many times as long a test may take here.
set(PACELINE_PATIENCE 1)
if(CMAKE_CROSSCOMPILING) # an emulator takes 20 to 80 times as long
  set(PACELINE_PATIENCE 15)
elseif(PACELINE_SANITIZE) # takes 4 to 20 times as long, much of it for shadow memory
  set(PACELINE_PATIENCE 3)
endif()

# paceline_test(NAME SOURCES test_x.c ... LINKS ... [LABEL unit] [TIMEOUT seconds] [ARGS ...]): a
# cmocka program
function(paceline_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINKS;ARGS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${PACELINE_PATIENCE}")
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} test_support PkgConfig::cmocka)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE TEST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77)
endfunction()

# paceline_script(NAME [LABEL e2e] [TIMEOUT seconds]): NAME.py, a test of the real programs, with
# tests/support on its path
function(paceline_script name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL e2e)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${PACELINE_PATIENCE}")
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set(environment PACELINE_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support PYTHONDONTWRITEBYTECODE=1)
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77
    ENVIRONMENT "${environment}")
endfunction()

# Everything that the fuzz preset runs.
add_custom_target(fuzzers)

# paceline_fuzzer(NAME SOURCES fuzz_x.c LINKS ... CORPUS directories): one LLVMFuzzerTestOneInput.
# In every preset the committed corpus is replayed as a test; the fuzz preset links libFuzzer
# instead of the replaying main, and corpus/NAME in its build tree lists the directories for
# tests/run.sh.
function(paceline_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;CORPUS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} base)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${name})
  if(PACELINE_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    list(JOIN ARG_CORPUS "\n" corpus)
    file(WRITE ${CMAKE_BINARY_DIR}/corpus/${name} "${corpus}\n")
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
    add_test(NAME ${name} COMMAND ${name} ${ARG_CORPUS})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 60)
  endif()
endfunction()
