# Writes a C++ file that defines texts:
#
#   cmake -DOUTPUT=FILE.cpp -DNAMESPACE=NS "-DTEXTS=NAME=FILE|FILE,NAME=" -P EmbedTexts.cmake
#
# Each NAME becomes `extern const std::string_view NAME`, the concatenation of the
# files, or an empty text.
set(text "// Written by tools/cmake/EmbedTexts.cmake.\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n")
string(REPLACE "," ";" entries "${TEXTS}")
foreach(entry IN LISTS entries)
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
  set(name "${CMAKE_MATCH_1}")
  string(REPLACE "|" ";" files "${CMAKE_MATCH_2}")
  string(APPEND text "extern const std::string_view ${name};\nconst std::string_view ${name} = R\"dpc_text(")
  foreach(file IN LISTS files)
    file(READ "${file}" content)
    string(APPEND text "${content}")
  endforeach()
  string(APPEND text ")dpc_text\";\n")
endforeach()
string(APPEND text "} // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${text}")
