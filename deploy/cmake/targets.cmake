# The verbs module build files are written in. Each takes a name, SOURCES and LINKS:
#
#   fg_library(fg_ingester SOURCES head.c commit.c LINKS fg_proto fg_base)
#   fg_program(flamegrid-ingester SOURCES main.c LINKS fg_ingester)
#   fg_helper(http_ask SOURCES http_ask.c LINKS fg_base)
#   fg_test(base_cursor SOURCES cursor_test.c LINKS fg_base)
#   fg_fuzz(pprof SOURCES pprof_fuzz.c LINKS fg_proto)
#   fg_proto(fg_rpc_messages SOURCES inner.proto)
#
# LINKS names our libraries (fg_base) and foreign ones (fg::uv) alike; they are public, because a
# static library's users have to link what it uses. Unknown arguments are errors: a misspelt LINKS
# would otherwise be taken for one more source.

set(FG_FUZZ_CORPUS "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus")

# A macro, so that the ARG_ variables land in the caller.
macro(fg_parse_arguments)
  cmake_parse_arguments(ARG "SLOW" "" "SOURCES;LINKS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES)
    message(FATAL_ERROR "${name}: expected [SLOW] SOURCES ... [LINKS ...], got: ${ARGN}")
  endif()
endmacro()

function(fg_link name)
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE fg_preset fg_warnings PUBLIC ${ARGN})
  set_target_properties(${name} PROPERTIES
    C_STANDARD 17 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
endfunction()

# A static library: one module or one service without its main.
function(fg_library name)
  fg_parse_arguments(${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  fg_link(${name} ${ARG_LINKS})
endfunction()

# A program, put at the top of the build folder, where people look for it.
function(fg_program name)
  fg_parse_arguments(${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  fg_link(${name} ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()

# What several test programs share, compiled once: name it in their LINKS. Its objects are linked whole, unlike those of a
# library, so it may stand in for what a library defines. CMake hands objects only to programs that name the helper
# themselves: a helper that needs another one cannot bring it along.
function(fg_helper name)
  fg_parse_arguments(${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  fg_link(${name} ${ARG_LINKS})
  target_compile_definitions(${name} PRIVATE FG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()

# A cmocka program, one per tested module, run by ctest from the source root so that test data has
# the same path in the code and in a shell. Target and ctest entry are called test_<name> and
# unit.<name>. It sees FG_SOURCE_DIR for paths that must not depend on where it was started. SLOW: it
# takes longer than a second and a half under the preset quick, and tests/run --quick leaves it out.
function(fg_test name)
  fg_parse_arguments(${ARGN})
  if(NOT FG_TESTS)
    return()
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  fg_link(test_${name} ${ARG_LINKS} fg::cmocka)
  target_compile_definitions(test_${name} PRIVATE FG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(test_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/bin")
  add_test(NAME unit.${name} COMMAND test_${name})
  if(ARG_SLOW)
    fg_test_properties(unit.${name} unit)
    set_tests_properties(unit.${name} PROPERTIES COST 60) # they begin first, or all wait for them at the end
  else()
    fg_test_properties(unit.${name} "unit;quick")
    set_target_properties(test_${name} PROPERTIES FG_QUICKLY_COMPILED ON)
  endif()
endfunction()

# A file with LLVMFuzzerTestOneInput(). Under the preset fuzz it becomes a libFuzzer program; under
# every other preset the same file is linked with a small main that replays tests/fuzz/corpus/<name>,
# so each crash ever found stays an ordinary test, under gcc too. Target: fuzz_<name>.
function(fg_fuzz name)
  fg_parse_arguments(${ARGN})
  if(NOT FG_TESTS)
    return()
  endif()
  add_executable(fuzz_${name} ${ARG_SOURCES})
  fg_link(fuzz_${name} ${ARG_LINKS})
  # The entry point has no header anywhere. On the files, because target options come too early to
  # take back what fg_warnings asks for.
  set_source_files_properties(${ARG_SOURCES} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
  set_target_properties(fuzz_${name} PROPERTIES FG_QUICKLY_COMPILED ON)
  set_target_properties(fuzz_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/bin")
  if(FG_PRESET STREQUAL "fuzz")
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} -runs=0 "${FG_FUZZ_CORPUS}/${name}")
  else()
    target_link_libraries(fuzz_${name} PRIVATE replay_main)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} "${FG_FUZZ_CORPUS}/${name}")
  endif()
  fg_test_properties(fuzz.${name} "fuzz;quick")
endfunction()

# To find what is used after a return, the sanitizer keeps frames of each thread, and of each fiber of the simulators, on a stack
# of its own: max_uar_stack_size_log makes it 64 KiB for each size of frame, since clearing the default's 1 MiB is a third of
# what a simulator costs.
function(fg_test_properties test label)
  set_tests_properties(${test} PROPERTIES
    LABELS "${label}"
    TIMEOUT 300
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    ENVIRONMENT
      "ASAN_OPTIONS=detect_stack_use_after_return=1:max_uar_stack_size_log=16:strict_string_checks=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=${CMAKE_SOURCE_DIR}/deploy/cmake/tsan.supp")
endfunction()

# A library of messages: protoc-c over .proto files of this folder. The generated header is included
# as "<folder>/<file>.pb-c.h", from the root like every other header. Its code is not ours: it is
# compiled without our warnings and seen as a system header. The target fg_generated makes all such
# files and compiles nothing: what a tool needs that only parses our sources.
add_custom_target(fg_generated)
function(fg_proto name)
  fg_parse_arguments(${ARGN})
  find_program(FG_PROTOC_C protoc-c REQUIRED)
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(root "${CMAKE_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${root}/${folder}")
  set(generated)
  foreach(source IN LISTS ARG_SOURCES)
    string(REGEX REPLACE "\\.proto$" "" stem "${source}")
    set(outputs "${root}/${folder}/${stem}.pb-c.c" "${root}/${folder}/${stem}.pb-c.h")
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${FG_PROTOC_C} "--proto_path=${CMAKE_SOURCE_DIR}" "--c_out=${root}"
              "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
      COMMENT "protoc-c ${folder}/${source}"
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  add_custom_target(${name}_sources DEPENDS ${generated})
  add_dependencies(fg_generated ${name}_sources)
  add_library(${name} STATIC ${generated})
  target_include_directories(${name} SYSTEM PUBLIC "${root}")
  target_link_libraries(${name} PRIVATE fg_preset PUBLIC fg::protobuf_c ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES C_STANDARD 17 C_EXTENSIONS ON)
endfunction()
