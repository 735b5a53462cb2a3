# Write OUTPUT, a C file that defines SYMBOL: the files FILES as a list of struct embedded. Byte
# lists, because string literals of this length are beyond what C promises.
set(arrays "")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "text_${name}" array)
  string(APPEND arrays "static const char ${array}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", ${array}, sizeof(${array}) - 1},\n")
endforeach()
file(WRITE ${OUTPUT} "/* Made by cmake/embed.cmake. */
#include \"base/embedded.h\"

extern const struct embedded ${SYMBOL}[];

${arrays}
const struct embedded ${SYMBOL}[] = {
${entries}    {NULL, NULL, 0},
};
")
