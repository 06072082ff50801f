#include "json_mutator.h"

#include <boost/json.hpp>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace quire::fuzz {
namespace {

namespace json = boost::json;
using Random = std::minstd_rand;

constexpr const char* kValues[] = {"null",
                                   "true",
                                   "false",
                                   "0",
                                   "1",
                                   "-1",
                                   "2147483648",
                                   "9223372036854775807",
                                   "1e308",
                                   "0.5",
                                   "-0.0",
                                   "\"\"",
                                   "\"a\"",
                                   "\"\\u0000\"",
                                   "\"\\ud83d\\ude00\"",
                                   "[]",
                                   "{}",
                                   "[[]]",
                                   "[0, 1]",
                                   "[\"a\", \"b\"]",
                                   "{\"type\": \"string\"}",
                                   "{\"type\": \"object\"}",
                                   "{\"$ref\": \"#\"}",
                                   "\"user\"",
                                   "\"assistant\"",
                                   "\"tool\"",
                                   "\"function\"",
                                   "\"json_schema\"",
                                   "\"required\""};

template <class List>
auto& pick(List& list, Random& random) {
  return list[random() % std::size(list)];
}

void collect(json::value& value, std::vector<json::value*>* out) {
  out->push_back(&value);
  if (auto* object = value.if_object()) {
    for (auto& member : *object) collect(member.value(), out);
  } else if (auto* array = value.if_array()) {
    for (auto& item : *array) collect(item, out);
  }
}

void change_text(json::string& text, std::size_t max_size) {
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const std::size_t size = bytes.size();
  bytes.resize(std::min(max_size, size + 16));
  bytes.resize(LLVMFuzzerMutate(bytes.data(), std::min(size, bytes.size()), bytes.size()));
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void change_inside(json::value& value, const json::value& other, std::size_t max_size,
                   Random& random, std::span<const std::string> names) {
  if (auto* object = value.if_object()) {
    if (!object->empty() && random() % 3 == 0) {
      auto member = object->begin() + static_cast<std::ptrdiff_t>(random() % object->size());
      object->erase(member);
    } else {
      (*object)[pick(names, random)] = other;
    }
  } else if (auto* array = value.if_array()) {
    const auto at = static_cast<std::ptrdiff_t>(random() % (array->size() + 1));
    if (!array->empty() && random() % 3 == 0) {
      array->erase(array->begin() + static_cast<std::ptrdiff_t>(random() % array->size()));
    } else {
      array->insert(array->begin() + at, other);
    }
  } else if (auto* text = value.if_string()) {
    change_text(*text, max_size);
  } else {
    value = other;
  }
}

void change(json::value& root, std::size_t max_size, Random& random,
            std::span<const std::string> names) {
  std::vector<json::value*> all;
  collect(root, &all);
  const json::value other =
      random() % 2 == 0 ? json::parse(pick(kValues, random)) : json::value(*pick(all, random));
  json::value& value = *pick(all, random);
  switch (random() % 8) {
    case 0:
      value = other;
      break;
    case 1:
      value = json::array{value, other};
      break;
    case 2:
      value = json::object{{pick(names, random), value}};
      break;
    default:
      change_inside(value, other, max_size, random, names);
  }
}

}  // namespace

std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                        std::size_t keep, std::span<const std::string> names) {
  Random random(seed);
  if (size < keep || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view text(reinterpret_cast<const char*>(data) + keep, size - keep);
  boost::system::error_code error;
  json::value root = json::parse(text, error, {}, {.max_depth = 80});
  if (error) return LLVMFuzzerMutate(data, size, max_size);
  for (unsigned i = 0; i <= random() % 3; ++i) change(root, max_size, random, names);
  const std::string out = json::serialize(root);
  if (out.size() + keep > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data + keep, out.data(), out.size());
  return keep + out.size();
}

}  // namespace quire::fuzz
