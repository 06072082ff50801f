// Calls into the text crate. The bridge throws what Rust returned as an error; here it becomes a
// Result, so that no exception leaves the text module.
#pragma once

#include <rust/cxx.h>

#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace quire {

inline rust::Slice<const std::uint8_t> rust_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// f() or its error with `code`; a panic on the Rust side is our own fault, so kInternal.
template <class F>
auto rust_call(ErrorCode code, F&& f) -> Result<std::invoke_result_t<F>> {
  constexpr std::string_view kPanic = "internal error: ";
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      return {};
    } else {
      return std::forward<F>(f)();
    }
  } catch (const rust::Error& error) {
    const std::string_view text = error.what();
    return make_error(text.starts_with(kPanic) ? ErrorCode::kInternal : code, "{}", text);
  } catch (const std::exception& error) {
    return make_error(ErrorCode::kInternal, "text layer: {}", error.what());
  }
}

}  // namespace quire
