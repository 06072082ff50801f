// Tokenizes and renders JSON lines, for comparison with other implementations: no model is loaded.
//
//   quire_tokenize_lines MODEL < lines.jsonl
//
// MODEL is a GGUF file or a folder with tokenizer.json (and tokenizer_config.json,
// chat_template.jinja). One line in gives one line out:
//   {"text": "...", "add_special_tokens": bool}  ->  {"ids": [...]}
//   {"ids": [...], "skip_special_tokens": bool}  ->  {"text": "..."}
//   {"messages": [...], "tools", "documents", "kwargs", "add_generation_prompt",
//    "continue_final_message", "chat_template"}  ->  {"text": "..."}
// or {"error": "..."}. Everything but the first three's first member may be left out.
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "app/gguf_vocab.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"

namespace json = boost::json;

namespace quire {
namespace {

struct TextLayer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null: the model has none
};

// Empty when there is no such file.
std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// tokenizer_config.json's chat_template: a string, or a list of {name, template}.
std::string template_of(const std::string& config) {
  if (config.empty()) return {};
  const json::value root = json::parse(config);
  const json::value* value = root.as_object().if_contains("chat_template");
  if (!value) return {};
  if (const json::string* text = value->if_string()) return std::string(*text);
  const json::array* named = value->if_array();
  if (!named) return {};
  for (const json::value& entry : *named) {
    if (entry.at("name").as_string() == "default") {
      return std::string(entry.at("template").as_string());
    }
  }
  return {};
}

Result<TextLayer> open_text_layer(const std::filesystem::path& path) {
  TextLayer layer;
  std::string source;
  if (std::filesystem::is_directory(path)) {
    const std::string config = read_file(path / "tokenizer_config.json");
    QUIRE_ASSIGN(layer.tokenizer, Tokenizer::from_json(read_file(path / "tokenizer.json"), config));
    source = read_file(path / "chat_template.jinja");
    if (source.empty()) source = template_of(config);
  } else {
    QUIRE_ASSIGN(const GgufFile file, GgufFile::open(path.string()));
    QUIRE_ASSIGN(const VocabSpec spec, read_gguf_vocab(file));
    QUIRE_ASSIGN(layer.tokenizer, Tokenizer::from_vocab(spec));
    source = file.get_string("tokenizer.chat_template").value_or("");
  }
  if (!source.empty()) {
    QUIRE_ASSIGN(layer.chat_template, ChatTemplate::create(source, layer.tokenizer->special()));
  }
  return layer;
}

bool flag(const json::object& line, std::string_view name, bool fallback) {
  const json::value* value = line.if_contains(name);
  return value ? value->as_bool() : fallback;
}

// The member's JSON text; empty when it is absent or null.
std::string member_text(const json::object& line, std::string_view name) {
  const json::value* value = line.if_contains(name);
  return value && !value->is_null() ? json::serialize(*value) : std::string();
}

Result<std::string> render(const TextLayer& layer, const json::object& line) {
  const ChatTemplate* chat_template = layer.chat_template.get();
  std::unique_ptr<ChatTemplate> own;
  if (const json::value* source = line.if_contains("chat_template")) {
    QUIRE_ASSIGN(own, ChatTemplate::create(source->as_string(), layer.tokenizer->special()));
    chat_template = own.get();
  }
  if (!chat_template) {
    return make_error(ErrorCode::kUnsupported, "the model has no chat template");
  }
  const std::string messages = member_text(line, "messages");
  const std::string tools = member_text(line, "tools");
  const std::string documents = member_text(line, "documents");
  const std::string kwargs = member_text(line, "kwargs");
  return chat_template->render(
      {.messages_json = messages,
       .tools_json = tools,
       .documents_json = documents,
       .kwargs_json = kwargs,
       .add_generation_prompt = flag(line, "add_generation_prompt", true),
       .continue_final_message = flag(line, "continue_final_message", false)});
}

Result<json::object> answer(const TextLayer& layer, const json::object& line) {
  if (const json::value* text = line.if_contains("text")) {
    QUIRE_ASSIGN(
        const std::vector<TokenId> ids,
        layer.tokenizer->encode(text->as_string(), flag(line, "add_special_tokens", true)));
    return json::object{{"ids", json::value_from(ids)}};
  }
  if (const json::value* ids = line.if_contains("ids")) {
    const bool skip = flag(line, "skip_special_tokens", false);
    return json::object{
        {"text", layer.tokenizer->decode(json::value_to<std::vector<TokenId>>(*ids), skip)}};
  }
  QUIRE_ASSIGN(const std::string text, render(layer, line));
  return json::object{{"text", text}};
}

int run(const char* model) {
  const Result<TextLayer> layer = open_text_layer(model);
  if (!layer) {
    std::fprintf(stderr, "%s: %s\n", model, layer.error().message.c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Result<json::object> reply = answer(*layer, json::parse(line).as_object());
    const json::object out = reply ? *reply : json::object{{"error", reply.error().message}};
    std::cout << json::serialize(out) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quire_tokenize_lines MODEL < lines.jsonl\n");
    return 2;
  }
  try {
    return quire::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quire_tokenize_lines: %s\n", error.what());
    return 1;
  }
}
