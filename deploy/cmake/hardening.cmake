# How machine code of ours is hardened: fg_hardening, the one list. The release preset has it, and
# deploy/deps has the libraries built with it that it links into our programs: one object without
# -fcf-protection, and the linker marks the whole program as one without.

set(fg_hardening -fstack-protector-strong)
include(CheckCCompilerFlag)
# These two depend on the processor, not only on the compiler.
foreach(flag -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "FG_HAVE${flag}" have)
  check_c_compiler_flag(${flag} ${have})
  if(${have})
    list(APPEND fg_hardening ${flag})
  endif()
endforeach()
# Level 3 also checks sizes known only at run time. glibc ignores it, with a warning, where the
# compiler has no __builtin_dynamic_object_size for it, so ask with -Werror and the real headers.
# -U first: some distributions' compilers define a level of their own.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" FG_HAVE_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
if(FG_HAVE_FORTIFY_3)
  list(APPEND fg_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
else()
  list(APPEND fg_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
