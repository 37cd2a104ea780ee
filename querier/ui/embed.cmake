# Writes files as a C table (querier/ui.h): cmake -DOUT=ui_files.c -DDIR=querier/ui -DAPI=FOLDER -P embed.cmake
#
# Content types by extension; index.html is served at /. API has what querier/openapi/make.py has made.
set(type_json "application/json")
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")

set(arrays "")
set(table "")
foreach(name IN ITEMS index.html app.js flame.js style.css openapi.json reference.html)
  set(folder "${DIR}")
  set(path "/ui/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  elseif(name STREQUAL "openapi.json")
    set(folder "${API}")
    set(path "/api/openapi.json")
  elseif(name STREQUAL "reference.html")
    set(folder "${API}")
    set(path "/api/reference")
  endif()
  string(REGEX REPLACE "[^a-z]" "_" id "${name}")
  string(REGEX REPLACE ".*\\." "" extension "${name}")
  file(READ "${folder}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char ${id}[] = {\n${bytes}\n};\n\n")
  string(APPEND table "    {\"${path}\", \"${type_${extension}}\", ${id}, sizeof ${id}},\n")
endforeach()

file(WRITE "${OUT}" "/* Made by querier/ui/embed.cmake. */\n#include \"querier/ui.h\"\n\n${arrays}"
  "const struct qry_ui_file qry_ui_files[] = {\n${table}};\n"
  "const size_t qry_n_ui_files = sizeof qry_ui_files / sizeof qry_ui_files[0];\n")
