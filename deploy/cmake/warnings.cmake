# The warnings our own code is compiled with. Generated and foreign code goes without.

option(FG_WERROR "Treat warnings as errors" ON)

add_library(fg_warnings INTERFACE)
target_compile_options(fg_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wvla -Wformat=2 -Wundef -Wimplicit-fallthrough -Wcast-qual
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${FG_WERROR}>:-Werror>)

# clang reads -Wconversion as including sign changes, gcc does not; one meaning for both.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  target_compile_options(fg_warnings INTERFACE -Wno-sign-conversion)
endif()

# gcc 12 with sanitizers reports maybe-uninitialized where its own instrumentation hides the
# assignment; release, which has none, keeps the warning.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT FG_PRESET STREQUAL "release")
  target_compile_options(fg_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
