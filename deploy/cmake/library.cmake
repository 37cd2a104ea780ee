# Read by the projects of others that deploy/deps builds, when each has said its name: our flags.
include("${CMAKE_CURRENT_LIST_DIR}/hardening.cmake")
add_compile_options(-fno-omit-frame-pointer ${fg_hardening} 
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=./deps -ffile-prefix-map=${CMAKE_BINARY_DIR}=./deps/build)
