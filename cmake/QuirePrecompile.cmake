# quire_precompile(TARGET [TEST] [OPTIMIZE flag] [HEADERS <h>... LIBS libraries...]): TARGET's files start from precompiled headers of the standard
# library and of the libraries that most files use (with TEST: GoogleTest as well), which takes a quarter off a clean
# build. One precompiled file serves all targets of the same flags. No header of ours is among them, so that a change
# of ours recompiles no more than before; every file still names all that it uses (`make lint` reads them without it).
option(QUIRE_PRECOMPILED_HEADERS "Precompile the standard library's and other libraries' headers" ON)

set(QUIRE_PRECOMPILED
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <fstream>
  <functional> <limits> <map> <memory> <mutex> <optional> <random> <span> <string> <string_view> <thread>
  <unordered_map> <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
set(QUIRE_PRECOMPILED_LIBRARY <spdlog/spdlog.h> <boost/json.hpp>)
set(QUIRE_PRECOMPILED_TEST <gtest/gtest.h>)

function(quire_precompile TARGET)
  if(NOT QUIRE_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "TEST" "OPTIMIZE" "HEADERS;LIBS" ${ARGN})
  # GCC takes a precompiled file only where the macros of the libraries in it are defined alike.
  set(headers ${QUIRE_PRECOMPILED} ${QUIRE_PRECOMPILED_LIBRARY})
  set(libraries fmt::fmt tl::expected spdlog::spdlog Boost::json)
  string(MAKE_C_IDENTIFIER "quire_pch${ARG_OPTIMIZE}" donor)
  if(ARG_TEST)
    string(APPEND donor _test)
    set(headers ${QUIRE_PRECOMPILED} ${QUIRE_PRECOMPILED_TEST})
    set(libraries fmt::fmt tl::expected GTest::gtest)
  endif()
  if(ARG_HEADERS)
    string(APPEND donor _${TARGET})
    list(APPEND headers ${ARG_HEADERS})
    list(APPEND libraries ${ARG_LIBS})
  endif()
  if(NOT TARGET ${donor})
    file(WRITE "${CMAKE_BINARY_DIR}/${donor}.cpp" "")
    add_library(${donor} OBJECT "${CMAKE_BINARY_DIR}/${donor}.cpp")
    target_link_libraries(${donor} PRIVATE quire_options ${libraries})
    target_compile_options(${donor} PRIVATE ${ARG_OPTIMIZE})
    target_precompile_headers(${donor} PRIVATE ${headers})
  endif()
  target_link_libraries(${TARGET} PRIVATE ${libraries})
  target_precompile_headers(${TARGET} REUSE_FROM ${donor})
endfunction()
