# Writes files as a C table (querier/ui.h): cmake -DOUT=ui_files.c -DDIR=querier/ui -P embed.cmake
#
# Content types by extension; index.html is served at /.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")

set(arrays "")
set(table "")
foreach(name IN ITEMS index.html app.js flame.js style.css)
  string(REGEX REPLACE "[^a-z]" "_" id "${name}")
  string(REGEX REPLACE ".*\\." "" extension "${name}")
  file(READ "${DIR}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  set(path "/ui/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND arrays "static const unsigned char ${id}[] = {\n${bytes}\n};\n\n")
  string(APPEND table "    {\"${path}\", \"${type_${extension}}\", ${id}, sizeof ${id}},\n")
endforeach()

file(WRITE "${OUT}" "/* Made by querier/ui/embed.cmake. */\n#include \"querier/ui.h\"\n\n${arrays}"
  "const struct qry_ui_file qry_ui_files[] = {\n${table}};\n"
  "const size_t qry_n_ui_files = sizeof qry_ui_files / sizeof qry_ui_files[0];\n")
