# Write OUTPUT, a C file that holds every file of FILES as a NUL-terminated text. Byte lists,
# because string literals of this length are beyond what C promises.
set(arrays "")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER ${name} array)
  string(APPEND arrays "static const char ${array}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", ${array}},\n")
endforeach()
file(WRITE ${OUTPUT} "/* Made from libtrain/zoo by embed_zoo.cmake. */
#include \"libtrain/description/zoo_table.h\"

${arrays}
const struct zoo_entry zoo_entries[] = {
${entries}    {NULL, NULL},
};
")
