// The texts of a Hugging Face tokenizer, from the folder of a model or from one of their own. Pure
// functions; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace quire {

struct TokenizerFiles {
  std::string tokenizer_json;         // empty: the folder has none
  std::string tokenizer_config_json;  // may be empty
  // Of chat_template.jinja, else tokenizer_config.json, else a processor's chat_template.json; may
  // be empty.
  std::string chat_template;
};

// path: a folder, or a tokenizer.json, beside which the other files may lie. A path that isn't
// there is an error, a folder without a tokenizer.json is none.
Result<TokenizerFiles> read_tokenizer_files(const std::string& path);

}  // namespace quire
