#include "hub/repo_listing.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <set>

#include "hub/model_ref.h"

namespace quire {
namespace {

namespace json = boost::json;

bool is_top_level(std::string_view path) { return path.find('/') == path.npos; }
bool contains(const std::vector<std::string>& paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

const json::object* as_object(const json::value* value) {
  return value ? value->if_object() : nullptr;
}
std::string text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  const json::string* text = value ? value->if_string() : nullptr;
  return text ? std::string(*text) : std::string();
}
std::int64_t size_at(const json::object& object) {
  const json::value* value = object.if_contains("size");
  return value && value->is_int64() && value->as_int64() >= 0 ? value->as_int64() : -1;
}

RepoFile parse_file(const json::object& sibling) {
  RepoFile file;
  file.path = text_at(sibling, "rfilename");
  if (const json::object* lfs = as_object(sibling.if_contains("lfs"))) {
    file.blob = text_at(*lfs, "sha256");
    file.size = size_at(*lfs);
    if (!is_hex(file.blob, 64)) file.blob.clear();
  } else {
    file.blob = text_at(sibling, "blobId");
    file.size = size_at(sibling);
    if (!is_hex(file.blob, 40)) file.blob.clear();
  }
  return file;
}

// "a-00001-of-00003" without its split, and the split's count (0: none).
struct Split {
  std::string_view stem;
  int index = 0, count = 0;
};
Split split_of(std::string_view path) {
  Split split{path.substr(0, path.size() - std::min<std::size_t>(5, path.size()))};
  constexpr std::size_t kTail = std::string_view("-00001-of-00002").size();
  if (split.stem.size() <= kTail) return split;
  const std::string_view tail = split.stem.substr(split.stem.size() - kTail);
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (const char c : tail.substr(at, 5))
      value = c >= '0' && c <= '9' && value >= 0 ? value * 10 + (c - '0') : -1;
    return value;
  };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || number(1) < 1 || number(10) < 1)
    return split;
  split.index = number(1);
  split.count = number(10);
  split.stem.remove_suffix(kTail);
  return split;
}

bool is_model_gguf(std::string_view path) {
  const std::string name = to_lower(path.substr(path.rfind('/') + 1));
  return name.ends_with(".gguf") && !name.starts_with("mmproj") &&
         name.find("imatrix") == name.npos;
}

// True when the stem ends with the tag after a separator, or a folder of the path is the tag.
bool has_quant(std::string_view path, std::string_view quant) {
  const std::string stem = to_lower(split_of(path).stem), tag = to_lower(quant);
  if (stem.ends_with(tag)) {
    const std::size_t at = stem.size() - tag.size();
    if (at == 0 || std::string_view("-._/").find(stem[at - 1]) != std::string_view::npos)
      return true;
  }
  return stem.find("/" + tag + "/") != stem.npos || stem.starts_with(tag + "/");
}

// One path per model: files without splits, and first splits. Sorted by length, then name, so that
// the plainest name wins.
std::vector<std::string> gguf_models(const std::vector<std::string>& paths) {
  std::vector<std::string> models;
  for (const std::string& path : paths) {
    if (is_model_gguf(path) && split_of(path).index <= 1) models.push_back(path);
  }
  std::sort(models.begin(), models.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return models;
}

std::string join_labels(const std::vector<std::string>& models) {
  std::set<std::string> labels;
  for (const std::string& path : models) labels.insert(gguf_label(path));
  return fmt::format("{}", fmt::join(labels, ", "));
}

}  // namespace

Result<RepoListing> parse_listing(std::string_view text, std::string_view repo) {
  boost::system::error_code error;
  const json::value document = json::parse(json::string_view(text.data(), text.size()), error);
  const json::object* object = error ? nullptr : document.if_object();
  if (!object)
    return make_error(ErrorCode::kUnavailable, "{}: the hub's listing is no JSON object", repo);
  RepoListing listing;
  listing.commit = text_at(*object, "sha");
  if (!is_commit(listing.commit))
    return make_error(ErrorCode::kUnavailable, "{}: the hub's listing names no commit", repo);
  const json::value* siblings = object->if_contains("siblings");
  if (!siblings || !siblings->is_array())
    return make_error(ErrorCode::kUnavailable, "{}: the hub's listing has no files", repo);
  for (const json::value& sibling : siblings->as_array()) {
    if (!sibling.is_object()) continue;
    RepoFile file = parse_file(sibling.as_object());
    if (!is_safe_file_name(file.path))
      return make_error(ErrorCode::kBadFile,
                        "{}: refused: a file name of the repository leads out of its folder: {}",
                        repo, json::serialize(json::value(file.path.substr(0, 200))));
    listing.files.push_back(std::move(file));
  }
  return listing;
}

Result<WeightFormat> choose_format(const std::vector<std::string>& paths, std::string_view quant,
                                   std::string_view repo) {
  bool safetensors = false, gguf = false, adapter = false;
  std::string pickle;
  for (const std::string& path : paths) {
    if (is_model_gguf(path)) gguf = true;
    if (!is_top_level(path)) continue;
    if (path == "adapter_model.safetensors" || path == "adapter_model.bin")
      adapter = true;
    else if (path.ends_with(".safetensors"))
      safetensors = true;
    for (const char* ending : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}) {
      if (path.ends_with(ending) && pickle.empty()) pickle = path;
    }
  }
  if (!quant.empty() && gguf) return WeightFormat::kGguf;
  if (!quant.empty())
    return make_error(ErrorCode::kNotFound,
                      "{}:{}: the repository has no GGUF file; leave out \":{}\"", repo, quant,
                      quant);
  if (safetensors) return WeightFormat::kSafetensors;
  if (gguf) return WeightFormat::kGguf;
  if (adapter)
    return make_error(ErrorCode::kUnsupported,
                      "{}: holds an adapter only, no model; merge it into its base model first",
                      repo);
  if (!pickle.empty())
    return make_error(ErrorCode::kUnsupported,
                      "{}: its weights are pickle files only ({}), which can run code when they "
                      "are loaded: refused; use a "
                      "repository with safetensors or GGUF files",
                      repo, pickle);
  return make_error(ErrorCode::kUnsupported,
                    "{}: has no weights (neither .safetensors nor .gguf among its {} files)", repo,
                    paths.size());
}

std::vector<std::string> small_files(const std::vector<std::string>& paths) {
  constexpr std::array kNames = std::to_array<std::string_view>(
      {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
       "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
       "merges.txt", "chat_template.jinja", "chat_template.json", "quantize_config.json",
       "quant_config.json", kIndexFile});
  std::vector<std::string> chosen;
  for (const std::string& path : paths) {
    if (std::find(kNames.begin(), kNames.end(), path) != kNames.end()) chosen.push_back(path);
  }
  return chosen;
}

std::vector<std::string> config_files(const std::vector<std::string>& paths) {
  std::vector<std::string> chosen = small_files(paths);
  std::erase(chosen, kIndexFile);
  return chosen;
}

std::vector<std::string> tokenizer_files(const std::vector<std::string>& paths) {
  std::vector<std::string> chosen = config_files(paths);
  std::erase_if(chosen, [](const std::string& path) {
    return path.ends_with("config.json") && path != "tokenizer_config.json";
  });
  return chosen;
}

Result<std::vector<std::string>> safetensors_files(const std::vector<std::string>& paths,
                                                   std::string_view index_json,
                                                   std::string_view repo) {
  if (index_json.empty()) {
    if (contains(paths, "model.safetensors")) return std::vector<std::string>{"model.safetensors"};
    std::vector<std::string> all;
    for (const std::string& path : paths) {
      if (is_top_level(path) && path.ends_with(".safetensors") &&
          path != "adapter_model.safetensors")
        all.push_back(path);
    }
    return all;
  }
  boost::system::error_code error;
  const json::value document =
      json::parse(json::string_view(index_json.data(), index_json.size()), error);
  const json::object* map = error || !document.is_object()
                                ? nullptr
                                : as_object(document.as_object().if_contains("weight_map"));
  if (!map) return make_error(ErrorCode::kBadFile, "{}: {} has no weight_map", repo, kIndexFile);
  std::set<std::string> shards;
  for (const auto& [name, value] : *map) {
    if (value.is_string()) shards.insert(std::string(value.as_string()));
  }
  for (const std::string& shard : shards) {
    if (!contains(paths, shard))
      return make_error(ErrorCode::kBadFile,
                        "{}: {} names \"{}\", which the repository does not have", repo, kIndexFile,
                        shard);
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

std::string gguf_label(std::string_view path) {
  std::string_view stem = split_of(path).stem;
  stem = stem.substr(stem.rfind('/') + 1);
  const std::size_t at = stem.find_last_of("-.");
  std::string_view tag = at == stem.npos ? stem : stem.substr(at + 1);
  if (at != stem.npos && stem.substr(0, at).ends_with("UD")) tag = stem.substr(at - 2);
  const bool is_tag = std::all_of(tag.begin(), tag.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return std::string(is_tag ? tag : stem);
}

Result<std::vector<std::string>> gguf_files(const std::vector<std::string>& paths,
                                            std::string_view quant, std::string_view repo) {
  const std::vector<std::string> models = gguf_models(paths);
  std::string first;
  for (const std::string& path : models) {
    const bool fits = quant.ends_with(".gguf") ? path == quant
                                               : has_quant(path, quant.empty() ? "Q4_K_M" : quant);
    if (fits) {
      first = path;
      break;
    }
  }
  if (first.empty() && quant.empty() && !models.empty())
    first = *std::min_element(models.begin(), models.end());
  if (first.empty())
    return make_error(ErrorCode::kNotFound, "{}:{}: no such quantization; the repository has {}",
                      repo, quant, models.empty() ? "no GGUF file" : join_labels(models));
  const Split split = split_of(first);
  if (split.count == 0) return std::vector<std::string>{first};
  std::vector<std::string> files;
  for (int i = 1; i <= split.count; ++i) {
    files.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", split.stem, i, split.count));
    if (!contains(paths, files.back()))
      return make_error(ErrorCode::kBadFile, "{}: split {} of {} is missing: {}", repo, i,
                        split.count, files.back());
  }
  return files;
}

}  // namespace quire
