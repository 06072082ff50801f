#include "base/source_path.h"

namespace quire {

// The one file that is compiled with the folder's name: the objects of all others are the same in
// every clone, so that ccache shares them.
std::string source_path(std::string_view relative) {
  return std::string(QUIRE_SOURCE_DIR "/").append(relative);
}

}  // namespace quire
