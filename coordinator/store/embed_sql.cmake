# Write OUTPUT, a C file that defines SYMBOL: the migrations FILES (NNNN_name.sql, in order) as
# texts.
set(arrays "")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(stem ${file} NAME_WE)
  if(NOT stem MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)$")
    message(FATAL_ERROR "'${file}' is not named NNNN_name.sql")
  endif()
  set(digits ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  string(REGEX REPLACE "^0+" "" number ${digits})
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const char text_${digits}[] = {${bytes}0};\n")
  string(APPEND entries "    {${number}, \"${name}\", text_${digits}},\n")
endforeach()
file(WRITE ${OUTPUT} "/* Made from coordinator/store/sql by embed_sql.cmake. */
#include <stddef.h>

#include \"coordinator/store/migrate.h\"

${arrays}
const struct migration ${SYMBOL}[] = {
${entries}    {0, NULL, NULL},
};
")
