# How a tree is compiled: -DFG_PRESET=dev|quick|tsan|release|fuzz|cov.
#
# A preset is a set of flags and nothing else: every target builds under every preset. It is a cache
# variable instead of a CMakePresets.json so that the scripts, which choose build folders themselves,
# and a person typing cmake by hand say it in the same way.
#
#   dev      -O1, address and undefined behaviour sanitizers; the default, and what the tests run. Of debug information only what
#            a stack trace needs (-g1), which saves a sixth of the compiler's time
#   quick    -O1 without sanitizers, for tests/run --quick and for a debugger
#   tsan     -O1, thread sanitizer; for threaded modules and the simulator
#   release  -O2, hardening; asserts stay, because what cannot happen must not continue (fg_assert). The same sources give the
#            same bytes, whatever the folders are called
#   fuzz     clang's coverage instrumentation, so that fg_fuzz() makes libFuzzer programs
#   cov      line coverage for gcov

set(FG_PRESET "dev" CACHE STRING "dev, quick, tsan, release, fuzz or cov")
set_property(CACHE FG_PRESET PROPERTY STRINGS dev quick tsan release fuzz cov)

# CMake's own build types would add -O3 or -DNDEBUG of their own to what a preset says.
if(CMAKE_BUILD_TYPE)
  message(FATAL_ERROR "Choose flags by FG_PRESET; CMAKE_BUILD_TYPE must stay empty.")
endif()

add_library(fg_preset INTERFACE)

# Frame pointers everywhere: a profiler that cannot be profiled would be a poor joke, and the
# sanitizers' stacks need them.
set(fg_flags -g -fno-omit-frame-pointer -fno-common)
set(fg_link_flags)
# To optimize a test's own file takes longer than the test saves, unless it is SLOW. A property and not an option of the target:
# those come before the preset's, and the last -O is the one that counts.
set(fg_level "$<IF:$<BOOL:$<TARGET_PROPERTY:FG_QUICKLY_COMPILED>>,-O0,-O1>")

if(FG_PRESET STREQUAL "dev")
  set(fg_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  list(APPEND fg_flags -g1 ${fg_sanitize})
  # Tests start our programs thousands of times: at a fixed address that takes a fifth less, without half a million relocations.
  list(APPEND fg_link_flags ${fg_sanitize} -no-pie)

elseif(FG_PRESET STREQUAL "quick")
  # the flags of all presets

elseif(FG_PRESET STREQUAL "tsan")
  list(APPEND fg_flags -fsanitize=thread)
  list(APPEND fg_link_flags -fsanitize=thread)

elseif(FG_PRESET STREQUAL "release")
  include("${CMAKE_CURRENT_LIST_DIR}/hardening.cmake")
  set(fg_level -O2)
  list(APPEND fg_flags -fPIE ${fg_hardening}
       -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=./build)
  list(APPEND fg_link_flags -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed -Wl,--build-id=sha1)

elseif(FG_PRESET STREQUAL "fuzz")
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FG_PRESET=fuzz needs clang: -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # fuzzer-no-link: instrument everything, but leave main() to whoever links; only fg_fuzz()
  # programs take libFuzzer's.
  set(fg_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  list(APPEND fg_flags -fsanitize=fuzzer-no-link ${fg_sanitize})
  list(APPEND fg_link_flags ${fg_sanitize})

elseif(FG_PRESET STREQUAL "cov")
  set(fg_level -O0)
  list(APPEND fg_flags --coverage)
  list(APPEND fg_link_flags --coverage)

else()
  message(FATAL_ERROR "Unknown FG_PRESET '${FG_PRESET}': dev, quick, tsan, release, fuzz or cov")
endif()

# Three hundred test programs, most of them with all of ours, are linked several times as fast by mold, where it is
# installed. Programs for users are linked by their system's linker.
if(FG_PRESET MATCHES "^(dev|quick|tsan)$")
  include(CheckLinkerFlag)
  check_linker_flag(C -fuse-ld=mold FG_HAVE_MOLD)
  if(FG_HAVE_MOLD)
    list(APPEND fg_link_flags -fuse-ld=mold)
  endif()
endif()

target_compile_options(fg_preset INTERFACE ${fg_level} ${fg_flags})
target_link_options(fg_preset INTERFACE ${fg_link_flags})
target_compile_definitions(fg_preset INTERFACE _GNU_SOURCE)
