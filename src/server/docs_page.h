// The page at /docs: reads /openapi.json and shows it, with a box to try each call. One text, no
// script from elsewhere.
#pragma once

#include <string_view>

namespace quire {

std::string_view docs_page();

}  // namespace quire
