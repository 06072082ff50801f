// open_model: finds out what a path holds and reads everything but the weights' bytes.
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <map>
#include <utility>

#include "weights/checked.h"
#include "weights/gguf_file.h"
#include "weights/gguf_split.h"
#include "weights/gguf_weights.h"
#include "weights/hf_overrides.h"
#include "weights/json_fields.h"
#include "weights/open_config.h"
#include "weights/quantized_weights.h"
#include "weights/safetensors_weights.h"
#include "weights/tokenizer_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

// The type of most elements of the matrices.
DType most_common_dtype(const WeightSource& weights) {
  std::map<DType, std::int64_t> elements;
  for (const std::string& name : weights.names()) {
    const TensorView view = weights.find(name);
    if (view.shape.rank() >= 2) elements[view.dtype] += view.shape.elements();
  }
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  return most == elements.end() ? DType::kF32 : most->first;
}

// Whether config.json says what the weights are stored in.
bool names_dtype(const std::string& config_json) {
  const auto object = parse_json_object(config_json, "config.json");
  if (!object) return false;
  const JsonFields fields(*object, "config.json");
  return fields.find("dtype") != nullptr || fields.find("torch_dtype") != nullptr;
}

// Older tools write the quantization into a file of its own: quantize_config.json (GPTQ) or
// quant_config.json (AWQ).
Status add_quantization_file(const fs::path& folder, json::object* config) {
  const json::value* own = config->if_contains("quantization_config");
  if (own != nullptr && !own->is_null()) return {};
  for (const auto& [name, method] :
       {std::pair("quantize_config.json", "gptq"), std::pair("quant_config.json", "awq")}) {
    QUIRE_ASSIGN(const std::string text, read_if_present(folder / name, kMaxConfigBytes));
    if (text.empty()) continue;
    QUIRE_ASSIGN(json::object quantization, parse_json_object(text, name));
    if (!quantization.contains("quant_method")) quantization["quant_method"] = method;
    (*config)["quantization_config"] = std::move(quantization);
    return {};
  }
  return {};
}

// config.json, completed by a file about its quantization, with --hf-overrides laid over it.
Result<std::string> read_config(const fs::path& folder, const OpenOptions& options) {
  const std::string path = (folder / "config.json").string();
  QUIRE_ASSIGN(const std::string config, read_text_file(path, kMaxConfigBytes));
  QUIRE_ASSIGN(json::object object, parse_json_object(config, path));
  QUIRE_TRY(add_quantization_file(folder, &object));
  if (!options.hf_overrides.empty()) {
    QUIRE_ASSIGN(const json::object over,
                 parse_json_object(options.hf_overrides, "--hf-overrides"));
    apply_hf_overrides(over, &object);
  }
  return json::serialize(object);
}

// The model's sampling defaults as the options want them. As vLLM takes max_new_tokens: the model's
// own is a default, one that the user brings is a limit for every request.
Status apply_generation_options(const OpenOptions& options, ModelConfig* config) {
  if (options.generation_config == "vllm") {
    config->generation = {};
  } else if (options.generation_config != "auto") {
    config->generation = {};
    std::error_code error;
    fs::path path = options.generation_config;
    if (fs::is_directory(path, error)) path /= "generation_config.json";
    const Result<std::string> text = read_text_file(path.string(), kMaxConfigBytes);
    if (!text) return make_error(text.error().code, "--generation-config {}", text.error().message);
    QUIRE_TRY(apply_generation_config(*text, path.string(), config));
    config->generation.max_new_tokens_limit = config->generation.max_new_tokens;
  }
  if (options.override_generation_config.empty()) return {};
  const std::optional<std::int64_t> own =
      std::exchange(config->generation.max_new_tokens, std::nullopt);
  QUIRE_TRY(apply_generation_config(options.override_generation_config,
                                    "--override-generation-config", config));
  if (config->generation.max_new_tokens)
    config->generation.max_new_tokens_limit = config->generation.max_new_tokens;
  else
    config->generation.max_new_tokens = own;
  return {};
}

Result<ModelFiles> open_gguf(const std::string& path, const OpenOptions& options) {
  if (!options.hf_overrides.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: --hf-overrides changes a config.json, and a GGUF has none; give the "
                      "Hugging Face folder, or leave the option out",
                      path);
  }
  QUIRE_ASSIGN(GgufFile file, GgufFile::open(path));
  ModelFiles files;
  files.path = path;
  files.is_gguf = true;
  files.file_bytes = file.file_bytes();
  QUIRE_ASSIGN(files.config, parse_gguf_config(file));
  QUIRE_TRY(apply_generation_options(options, &files.config));
  files.chat_template = file.get_string("tokenizer.chat_template").value_or("");
  files.gguf = std::make_shared<const GgufFile>(std::move(file));
  files.weights = std::make_unique<GgufWeights>(files.gguf, files.config);
  files.config.stored_dtype = most_common_dtype(*files.weights);
  return files;
}

Result<ModelFiles> open_hf_folder(const fs::path& folder, const OpenOptions& options) {
  QUIRE_ASSIGN(ModelFiles files, open_without_weights(folder.string(), options));
  QUIRE_ASSIGN(SafetensorsFile weights, SafetensorsFile::open_folder(files.path));
  files.file_bytes = weights.file_bytes();
  if (files.config.quantization.method == QuantMethod::kNone) {
    files.weights = std::make_unique<SafetensorsWeights>(std::move(weights));
  } else {
    auto quantized = QuantizedWeights::create(std::move(weights), files.config.quantization);
    if (!quantized)
      return make_error(quantized.error().code, "{}: {}", files.path, quantized.error().message);
    files.weights = *std::move(quantized);
  }
  // A checkpoint without a head of its own uses the embedding, whatever the configuration says.
  if (files.weights->find("lm_head.weight").empty() &&
      files.weights->find("embed_out.weight").empty()) {
    files.config.tied_embeddings = true;
  }
  QUIRE_ASSIGN(const std::string config, read_config(folder, options));
  if (!names_dtype(config)) files.config.stored_dtype = most_common_dtype(*files.weights);
  return files;
}

// Of the parts of a split model, one: the first that is there.
void keep_first_parts(std::vector<std::string>* paths) {
  std::sort(paths->begin(), paths->end());
  std::string last;
  std::erase_if(*paths, [&](const std::string& path) {
    const auto part = parse_gguf_part(path);
    if (!part) return false;
    std::string model = part->stem + "/" + std::to_string(part->count);
    const bool again = model == last;
    last = std::move(model);
    return again;
  });
}

Result<ModelFiles> open_folder(const fs::path& folder, const OpenOptions& options) {
  constexpr std::string_view kSafetensors[] = {".safetensors", ".safetensors.index.json"};
  constexpr std::string_view kGguf[] = {".gguf"};
  QUIRE_ASSIGN(const std::vector<std::string> safetensors, names_ending_in(folder, kSafetensors));
  QUIRE_ASSIGN(std::vector<std::string> gguf_files, names_ending_in(folder, kGguf));
  // GGUF files are often published with the configuration of what they were made from.
  if (path_exists(folder / "config.json") && (gguf_files.empty() || !safetensors.empty()))
    return open_hf_folder(folder, options);
  std::erase_if(gguf_files, [](const std::string& name) { return name.starts_with("mmproj"); });
  for (std::string& name : gguf_files) name = (folder / name).string();
  keep_first_parts(&gguf_files);
  if (gguf_files.size() == 1) return open_gguf(gguf_files[0], options);
  if (gguf_files.empty()) {
    return make_error(ErrorCode::kNotFound,
                      "{}: has neither config.json nor a .gguf file: give a "
                      "Hugging Face folder or a .gguf file",
                      folder.string());
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: holds {} .gguf files; name one of them, e.g. {}", folder.string(),
                    gguf_files.size(), gguf_files[0]);
}

}  // namespace

Result<ModelFiles> open_without_weights(const std::string& folder_name,
                                        const OpenOptions& options) {
  const fs::path folder = folder_name;
  ModelFiles files;
  files.path = folder_name;
  QUIRE_ASSIGN(const std::string config, read_config(folder, options));
  QUIRE_ASSIGN(const std::string generation,
               read_if_present(folder / "generation_config.json", kMaxConfigBytes));
  auto parsed = parse_hf_config(config, generation);
  if (!parsed) {
    parsed.error().message = (folder / parsed.error().message).string();
    return tl::unexpected(std::move(parsed).error());
  }
  files.config = *std::move(parsed);
  QUIRE_TRY(apply_generation_options(options, &files.config));
  QUIRE_ASSIGN(TokenizerFiles tokenizer, read_tokenizer_files(folder_name));
  files.tokenizer_json = std::move(tokenizer.tokenizer_json);
  files.tokenizer_config_json = std::move(tokenizer.tokenizer_config_json);
  files.chat_template = std::move(tokenizer.chat_template);
  return files;
}

Result<ModelFiles> open_model(const std::string& path, const OpenOptions& options) {
  std::error_code error;
  // Symbolic links stay: a hub's cache has the file names on them only.
  const fs::path resolved = fs::absolute(path, error).lexically_normal();
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || path.empty()) {
    return make_error(ErrorCode::kNotFound,
                      "model \"{}\": no such file or folder; give a .gguf file "
                      "or a Hugging Face folder",
                      path);
  }
  if (fs::is_directory(status)) return open_folder(resolved, options);
  if (resolved.extension() == ".safetensors") {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: a single weights file; give its folder, which "
                      "holds config.json and the tokenizer too",
                      path);
  }
  return open_gguf(resolved.string(), options);
}

}  // namespace quire
