#include "weights/tokenizer_files.h"

#include <boost/json/array.hpp>
#include <filesystem>

#include "weights/checked.h"
#include "weights/json_fields.h"

namespace quire {
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::uint64_t kMaxTokenizerBytes = 512'000'000;

// chat_template of a tokenizer_config.json, or of the chat_template.json that older multimodal
// models have: a string, or a list of {name, template} with a "default".
Result<std::string> template_of_json(const std::string& text, const std::string& path) {
  if (text.empty()) return std::string();
  QUIRE_ASSIGN(const json::object object, parse_json_object(text, path));
  const JsonFields fields(object, path);
  const json::value* value = fields.find("chat_template");
  if (value == nullptr || !value->is_array()) {
    QUIRE_ASSIGN(const auto single, fields.get_string("chat_template"));
    return single.value_or("");
  }
  for (const json::value& item : value->get_array()) {
    if (!item.is_object()) continue;
    const JsonFields entry(item.get_object(), path);
    QUIRE_ASSIGN(const auto name, entry.get_string("name"));
    QUIRE_ASSIGN(const auto text_of_entry, entry.get_string("template"));
    if (name == "default") return text_of_entry.value_or("");
  }
  return std::string();
}

}  // namespace

Result<TokenizerFiles> read_tokenizer_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || path.empty()) {
    return make_error(
        ErrorCode::kNotFound,
        "tokenizer \"{}\": no such file or folder; give a tokenizer.json or its folder", path);
  }
  const bool is_folder = fs::is_directory(status);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  TokenizerFiles files;
  QUIRE_ASSIGN(
      files.tokenizer_json,
      read_if_present(is_folder ? folder / "tokenizer.json" : fs::path(path), kMaxTokenizerBytes));
  if (files.tokenizer_json.empty() && (!is_folder || path_exists(folder / "tokenizer.json")))
    return make_error(ErrorCode::kBadFile, "{}: the tokenizer is an empty file; download it again",
                      path);
  const fs::path config = folder / "tokenizer_config.json";
  QUIRE_ASSIGN(files.tokenizer_config_json, read_if_present(config, kMaxConfigBytes));
  QUIRE_ASSIGN(files.chat_template,
               read_if_present(folder / "chat_template.jinja", kMaxConfigBytes));
  if (files.chat_template.empty()) {
    QUIRE_ASSIGN(files.chat_template,
                 template_of_json(files.tokenizer_config_json, config.string()));
  }
  if (files.chat_template.empty()) {
    const fs::path processor = folder / "chat_template.json";
    QUIRE_ASSIGN(const std::string text, read_if_present(processor, kMaxConfigBytes));
    QUIRE_ASSIGN(files.chat_template, template_of_json(text, processor.string()));
  }
  return files;
}

}  // namespace quire
