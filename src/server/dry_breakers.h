// DRY's sequence breakers as token sequences. A text breaks wherever it may stand: in every token
// whose bytes hold it, and over the edge of a token that ends with its beginning. Finding those
// walks the whole vocabulary, so the last few sets are kept. Thread safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sampling/sampling_params.h"
#include "server/text_service.h"

namespace quire {

class DryBreakerCache {
 public:
  // llama.cpp's defaults.
  static std::vector<std::string> defaults() { return {"\n", ":", "\"", "*"}; }
  Result<std::shared_ptr<const DryBreakers>> get(const TextService& text,
                                                 const std::vector<std::string>& breakers);

 private:
  using Entry = std::pair<std::vector<std::string>, std::shared_ptr<const DryBreakers>>;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace quire
