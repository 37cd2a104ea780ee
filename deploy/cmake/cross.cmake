# A build for another architecture with Debian's cross compiler and multiarch packages: CMAKE_TOOLCHAIN_FILE names this file, and
# FG_TRIPLET, in the environment too, the architecture, as in aarch64-linux-gnu. deploy/image/cross sets both.
set(fg_triplet "$ENV{FG_TRIPLET}")
string(REGEX REPLACE "-.*" "" fg_processor "${fg_triplet}")

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${fg_processor}")
set(CMAKE_C_COMPILER "${fg_triplet}-gcc")
set(CMAKE_CXX_COMPILER "${fg_triplet}-g++")
set(CMAKE_LIBRARY_ARCHITECTURE "${fg_triplet}")
set(ENV{PKG_CONFIG_LIBDIR} "/usr/lib/${fg_triplet}/pkgconfig:/usr/share/pkgconfig")
