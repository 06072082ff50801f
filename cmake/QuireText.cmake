# The text crate (tokenizers, minijinja behind a cxx bridge), built by cargo into one target folder
# that every build folder shares, so that Rust is compiled once whatever the preset.
#
# Gives quire_text_crate: the static library (which holds the bridge's C++ half too) and the
# generated headers, as system includes. Cargo reads the committed lock file; with the crates in its
# cache it needs no network (CARGO_NET_OFFLINE=true forbids it to try).
find_package(Threads REQUIRED)

set(QUIRE_CARGO_MIN_VERSION 1.88)
function(quire_cargo_is_new_enough RESULT CANDIDATE)
  execute_process(COMMAND "${CANDIDATE}" --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${version}")
  if(NOT version OR version VERSION_LESS QUIRE_CARGO_MIN_VERSION)
    set(${RESULT} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(QUIRE_CARGO NAMES cargo cargo-web HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin"
             VALIDATOR quire_cargo_is_new_enough)
if(NOT QUIRE_CARGO)
  message(FATAL_ERROR "cargo >= ${QUIRE_CARGO_MIN_VERSION} was not found: run scripts/setup.sh")
endif()

set(quire_text_dir "${CMAKE_SOURCE_DIR}/crates/quire-text")
set(quire_text_target_dir "${CMAKE_SOURCE_DIR}/target")
set(quire_text_profile_dir "${quire_text_target_dir}/release")
set(quire_text_cargo "${QUIRE_CARGO}")
set(quire_text_flags "")
if(QUIRE_FUZZ)
  # With the coverage that libFuzzer reads; build scripts and macros, which run here, stay without it.
  set(quire_text_target_dir "${CMAKE_BINARY_DIR}/target")
  execute_process(COMMAND "${QUIRE_CARGO}" -vV OUTPUT_VARIABLE quire_cargo_version)
  string(REGEX MATCH "host: ([^\n]+)" _ "${quire_cargo_version}")
  set(quire_text_flags --target "${CMAKE_MATCH_1}")
  set(quire_text_profile_dir "${quire_text_target_dir}/${CMAKE_MATCH_1}/release")
  set(coverage -Cpasses=sancov-module)
  foreach(option level=4 inline-8bit-counters pc-table trace-compares)
    string(APPEND coverage " -Cllvm-args=-sanitizer-coverage-${option}")
  endforeach()
  set(quire_text_cargo "${CMAKE_COMMAND}" -E env "RUSTFLAGS=${coverage}" "${QUIRE_CARGO}")
endif()
set(quire_text_lib "${quire_text_profile_dir}/libquire_text.a")
set(quire_text_include "${quire_text_target_dir}/cxxbridge")
set(quire_text_stamp "${CMAKE_BINARY_DIR}/quire_text.stamp")
file(GLOB_RECURSE quire_text_sources CONFIGURE_DEPENDS "${quire_text_dir}/src/*.rs")
add_custom_command(
  OUTPUT "${quire_text_stamp}"
  BYPRODUCTS "${quire_text_lib}" "${quire_text_include}/quire-text/src/lib.rs.h"
  COMMAND ${quire_text_cargo} build --release --locked --quiet ${quire_text_flags}
          --manifest-path "${quire_text_dir}/Cargo.toml" --target-dir "${quire_text_target_dir}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${quire_text_stamp}"
  DEPENDS ${quire_text_sources} "${quire_text_dir}/Cargo.toml" "${quire_text_dir}/Cargo.lock"
          "${quire_text_dir}/build.rs"
  COMMENT "Building the text crate with cargo"
  VERBATIM)
add_custom_target(quire_text_cargo DEPENDS "${quire_text_stamp}")

file(MAKE_DIRECTORY "${quire_text_include}")
add_library(quire_text_rust STATIC IMPORTED GLOBAL)
set_target_properties(quire_text_rust PROPERTIES IMPORTED_LOCATION "${quire_text_lib}")
add_dependencies(quire_text_rust quire_text_cargo)

add_library(quire_text_crate INTERFACE)
target_include_directories(quire_text_crate SYSTEM INTERFACE "${quire_text_include}")
target_link_libraries(quire_text_crate INTERFACE quire_text_rust Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(quire_text_crate quire_text_cargo)
