// Where the tests find the files that they read. For tests only: the product never looks into its
// sources.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// The absolute path of a file or folder of the source tree, given relative to its top.
std::string source_path(std::string_view relative);

}  // namespace quire
