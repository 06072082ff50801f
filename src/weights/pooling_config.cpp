#include "weights/pooling_config.h"

#include <array>
#include <boost/json/array.hpp>
#include <filesystem>
#include <utility>

#include "weights/checked.h"
#include "weights/gguf_file.h"
#include "weights/json_fields.h"

namespace quire {
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::uint64_t kMaxBytes = 1'000'000;

// The one mode that is on; the others of sentence-transformers need more than one state.
Status read_pooling_module(const fs::path& path, PoolingConfig* config) {
  QUIRE_ASSIGN(const std::string text, read_text_file(path.string(), kMaxBytes));
  const std::string name = path.string();
  QUIRE_ASSIGN(const json::object object, parse_json_object(text, name));
  const JsonFields fields(object, name);
  static constexpr std::array<std::pair<const char*, Pooling>, 3> kModes{
      {{"pooling_mode_lasttoken", Pooling::kLast},
       {"pooling_mode_mean_tokens", Pooling::kMean},
       {"pooling_mode_cls_token", Pooling::kFirst}}};
  int on = 0;
  for (const auto& [key, pooling] : kModes) {
    QUIRE_ASSIGN(const auto value, fields.get_bool(key));
    if (!value.value_or(false)) continue;
    config->pooling = pooling;
    ++on;
  }
  if (on != 1) config->unsupported = fmt::format("{} names no single pooling that is known", name);
  return {};
}

Status read_module(const fs::path& folder, const JsonFields& module, PoolingConfig* config) {
  QUIRE_ASSIGN(const auto type, module.get_string("type"));
  QUIRE_ASSIGN(const auto path, module.get_string("path"));
  const std::string kind = type.value_or("");
  const std::string last =
      kind.substr(kind.rfind('.') == std::string::npos ? 0 : kind.rfind('.') + 1);
  if (last == "Transformer") return {};
  if (last == "Pooling")
    return read_pooling_module(folder / path.value_or("") / "config.json", config);
  if (last == "Normalize") {
    config->normalize = true;
    return {};
  }
  config->unsupported = fmt::format("its modules.json asks for a \"{}\"", last);
  return {};
}

PoolingConfig read_gguf_pooling(const GgufFile& file, const std::string& architecture) {
  PoolingConfig config;
  switch (file.get_int(architecture + ".pooling_type").value_or(0)) {
    case 0:  // not said
    case 3:
      break;
    case 1:
      config.pooling = Pooling::kMean;
      break;
    case 2:
      config.pooling = Pooling::kFirst;
      break;
    default:
      config.unsupported = fmt::format("{}.pooling_type is not mean, first or last", architecture);
  }
  return config;
}

}  // namespace

Result<PoolingConfig> read_hf_pooling(const std::string& folder) {
  PoolingConfig config;
  const fs::path modules = fs::path(folder) / "modules.json";
  if (!path_exists(modules)) {
    const fs::path alone = fs::path(folder) / "1_Pooling" / "config.json";
    if (path_exists(alone)) QUIRE_TRY(read_pooling_module(alone, &config));
    return config;
  }
  config.normalize = false;  // unless a module says so
  QUIRE_ASSIGN(const std::string text, read_text_file(modules.string(), kMaxBytes));
  const std::string name = modules.string();
  // A list; the reader of objects wants an object.
  QUIRE_ASSIGN(const json::object object, parse_json_object("{\"modules\":" + text + "}", name));
  const json::value& list = object.at("modules");
  if (!list.is_array()) return make_error(ErrorCode::kBadFile, "{}: must hold a list", name);
  for (const json::value& item : list.get_array()) {
    if (!item.is_object()) continue;
    QUIRE_TRY(read_module(folder, JsonFields(item.get_object(), name), &config));
  }
  return config;
}

Result<PoolingConfig> read_pooling_config(const ModelFiles& files) {
  if (files.is_gguf) return read_gguf_pooling(*files.gguf, files.config.source_architecture);
  return read_hf_pooling(files.path);
}

}  // namespace quire
