#include "app/open_files.h"

#include <filesystem>
#include <utility>

#include "app/dummy_weights.h"
#include "weights/open_config.h"
#include "weights/tokenizer_files.h"

namespace quire {
namespace {

Result<ModelFiles> open_dummy(const std::string& path, const OpenFlags& flags, std::uint64_t seed) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::path(path) / "config.json", ignored))
    return make_error(ErrorCode::kInvalidArgument,
                      "--load-format dummy needs a folder with a config.json; {} is none", path);
  QUIRE_ASSIGN(ModelFiles files, open_without_weights(path, flags.options));
  QUIRE_ASSIGN(std::unique_ptr<DummyWeights> weights, DummyWeights::create(files.config, seed));
  files.file_bytes = weights->total_bytes();
  files.weights = std::move(weights);
  return files;
}

// --tokenizer: its files in place of the model's own. The model's template stays where the
// tokenizer brings none.
Status replace_tokenizer(const std::string& path, ModelFiles& files) {
  if (path.empty()) return {};
  QUIRE_ASSIGN(TokenizerFiles own, read_tokenizer_files(path));
  if (own.tokenizer_json.empty())
    return make_error(ErrorCode::kNotFound, "--tokenizer {}: the folder has no tokenizer.json",
                      path);
  files.tokenizer_json = std::move(own.tokenizer_json);
  files.tokenizer_config_json = std::move(own.tokenizer_config_json);
  if (!own.chat_template.empty()) files.chat_template = std::move(own.chat_template);
  return {};
}

}  // namespace

Result<ModelFiles> open_files(const std::string& path, const OpenFlags& flags, std::uint64_t seed,
                              const std::string& tokenizer) {
  QUIRE_ASSIGN(ModelFiles files, flags.load_format == "dummy" ? open_dummy(path, flags, seed)
                                                              : open_model(path, flags.options));
  QUIRE_TRY(replace_tokenizer(tokenizer, files));
  return files;
}

}  // namespace quire
