// Boost.JSON's view of a text as the standard's.
#pragma once

#include <boost/json/string_view.hpp>
#include <string_view>

namespace quire {

inline std::string_view view(boost::json::string_view text) { return {text.data(), text.size()}; }

}  // namespace quire
