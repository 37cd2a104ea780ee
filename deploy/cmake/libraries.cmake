# The libraries we stand on, each as an imported target fg::<name>, so that a module's LINKS say
# what it reaches for and nothing else is in its include path by accident.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# Distribution's libraries. Versions are what Debian 12 has; older ones were never tried.
function(fg_find_library name module)
  pkg_check_modules(FG_DEP_${name} REQUIRED QUIET IMPORTED_TARGET GLOBAL "${module}")
  add_library(fg::${name} ALIAS PkgConfig::FG_DEP_${name})
endfunction()

fg_find_library(uv         "libuv >= 1.44")
fg_find_library(nghttp2    "libnghttp2 >= 1.52")
fg_find_library(rocksdb    "rocksdb >= 7.8")
fg_find_library(zstd       "libzstd >= 1.5.4")
fg_find_library(yaml       "yaml-0.1 >= 0.2.5")
fg_find_library(protobuf_c "libprotobuf-c >= 1.4")
fg_find_library(xxhash     "libxxhash >= 0.8")
fg_find_library(deflate    "libdeflate >= 1.14")
fg_find_library(re2        "re2")
fg_find_library(jansson    "jansson >= 2.14")
fg_find_library(zlib       "zlib >= 1.2.13")
fg_find_library(openssl    "openssl >= 3.0")
fg_find_library(curl       "libcurl >= 7.88")
fg_find_library(expat      "expat >= 2.5")

# nng and llhttp: the system's where new enough, else what deploy/deps built. That script decides
# and leaves its answer in build/deps/deps.cmake, so the rule "new enough" is written down once.
set(FG_DEPS_DIR "${CMAKE_SOURCE_DIR}/build/deps" CACHE PATH "Where deploy/deps put its libraries")
if(NOT EXISTS "${FG_DEPS_DIR}/deps.cmake")
  message(FATAL_ERROR "nng and llhttp are missing: run deploy/deps first.")
endif()
include("${FG_DEPS_DIR}/deps.cmake")

# cmocka is asked for only by tests; a production image builds without it.
pkg_check_modules(FG_DEP_cmocka QUIET IMPORTED_TARGET GLOBAL "cmocka >= 1.1.5")
if(FG_DEP_cmocka_FOUND)
  add_library(fg::cmocka ALIAS PkgConfig::FG_DEP_cmocka)
endif()
option(FG_TESTS "Build the tests (needs cmocka)" ${FG_DEP_cmocka_FOUND})
if(FG_TESTS AND NOT TARGET fg::cmocka)
  message(FATAL_ERROR "FG_TESTS needs cmocka")
endif()
