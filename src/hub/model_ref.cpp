#include "hub/model_ref.h"

#include <algorithm>

namespace quire {
namespace {

constexpr std::size_t kMaxRepoPart = 96;
constexpr std::size_t kMaxFileName = 255;
constexpr std::size_t kMaxPath = 1024;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool is_name_char(char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; }

bool is_path_of_parts(std::string_view path, bool (*good)(std::string_view)) {
  if (path.empty() || path.size() > kMaxPath) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    if (!good(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_plain_component(std::string_view part) {
  if (part.empty() || part == "." || part == ".." || part.size() > kMaxFileName) return false;
  return std::all_of(part.begin(), part.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\' && c != '/';
  });
}

bool is_revision_part(std::string_view part) {
  return is_plain_component(part) && part.front() != '.' && part.front() != '-' &&
         part.find("..") == std::string_view::npos && part.find_first_of(" ~^:?*[") == part.npos;
}

}  // namespace

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_repo_part(std::string_view text) {
  if (text.empty() || text.size() > kMaxRepoPart) return false;
  const auto is_edge = [](char c) { return c != '-' && c != '.'; };
  return std::all_of(text.begin(), text.end(), is_name_char) && is_edge(text.front()) &&
         is_edge(text.back()) && text.find("--") == text.npos && text.find("..") == text.npos &&
         !text.ends_with(".git");
}

std::optional<ModelRef> parse_model_ref(std::string_view text) {
  ModelRef ref;
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    const std::string_view quant = text.substr(colon + 1);
    const bool is_file = quant.ends_with(".gguf") && is_safe_file_name(quant);
    if (!is_file && (quant.empty() || !std::all_of(quant.begin(), quant.end(), is_name_char)))
      return std::nullopt;
    ref.quant = quant;
    text = text.substr(0, colon);
  }
  const std::size_t slash = text.find('/');
  if (!is_repo_part(text.substr(0, slash)) ||
      (slash != text.npos && !is_repo_part(text.substr(slash + 1))))
    return std::nullopt;
  // A file that is not there, not a repository.
  for (const std::string_view ending : {".gguf", ".safetensors", ".json", ".bin", ".pt", ".pth"}) {
    if (text.ends_with(ending)) return std::nullopt;
  }
  ref.repo = text;
  return ref;
}

bool is_commit(std::string_view text) { return is_hex(text, 40); }
bool is_revision(std::string_view text) { return is_path_of_parts(text, is_revision_part); }
bool is_safe_file_name(std::string_view path) { return is_path_of_parts(path, is_plain_component); }

std::optional<std::string> blob_name(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  if (etag.empty() || etag.size() > 128 || etag.front() == '.' ||
      !std::all_of(etag.begin(), etag.end(), is_name_char))
    return std::nullopt;
  return std::string(etag);
}

}  // namespace quire
