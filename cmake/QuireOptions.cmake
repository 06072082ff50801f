# Flags that hold for every target. Arithmetic rules (no contraction, no fast-math) are part of the
# engine's promise that bits do not depend on the batch; see docs/architecture.md.
add_library(quire_options INTERFACE)
target_include_directories(quire_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_compile_options(quire_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual
  -ffp-contract=off -fno-omit-frame-pointer)
target_compile_definitions(quire_options INTERFACE QUIRE_VERSION="${PROJECT_VERSION}")
if(QUIRE_SANITIZE)
  target_compile_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
  if(QUIRE_SANITIZE MATCHES "undefined")
    # AddressSanitizer reports null pointers and wrong sizes too; these take a fifth of the time of a build.
    target_compile_options(quire_options INTERFACE -fno-sanitize=null,vptr,object-size)
  endif()
endif()
# What runs once, or waits for the network, is optimized little: it halves the time that GoogleTest's macros, CLI11
# and Asio take to compile. Sanitizer presets are built without optimization but for what computes; kernels lose
# their -O3 there, and their checks become calls, or one file of theirs takes two minutes.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(QUIRE_COLD_OPTIMIZE -O1)
set(QUIRE_WARM_OPTIMIZE "")
set(QUIRE_HOT_OPTIMIZE -O3)
set(QUIRE_KERNEL_OPTIMIZE -O3)
if(QUIRE_SANITIZE)
  set(QUIRE_COLD_OPTIMIZE -O0)
  set(QUIRE_WARM_OPTIMIZE -O1)
  set(QUIRE_HOT_OPTIMIZE -O1)
  set(QUIRE_KERNEL_OPTIMIZE -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND QUIRE_SANITIZE MATCHES "address")
    set(QUIRE_KERNEL_SANITIZE "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND QUIRE_SANITIZE)
  # GCC 12 reports false positives of these under the sanitizers.
  target_compile_options(quire_options INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
                         -Wno-array-bounds -Wno-restrict)
endif()

# Eight files of a module are compiled as one: templates that they share are made once, which halves a clean build.
# So names in anonymous namespaces are unique within a module. For work on one file: -DCMAKE_UNITY_BUILD=OFF.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the source folder: clones and work trees share what was compiled. The sloppiness is what
  # ccache asks for with precompiled headers; no header of ours looks at the time of day or at undeclared macros.
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${QUIRE_CCACHE}")
endif()
find_program(QUIRE_MOLD mold)
if(QUIRE_MOLD)
  target_link_options(quire_options INTERFACE -fuse-ld=mold)
endif()
