#include "weights/hf_overrides.h"

#include "weights/json_fields.h"

namespace quire {
namespace json = boost::json;

namespace {

// The rope_parameters of all layers, or of the full ones; nullptr: an older file.
json::object* rope_parameters(json::object& config) {
  json::value* all = config.if_contains("rope_parameters");
  if (all == nullptr || !all->is_object()) return nullptr;
  json::value* full = all->get_object().if_contains("full_attention");
  return full != nullptr && full->is_object() ? &full->get_object() : &all->get_object();
}

void set_scaling(const json::value& scaling, json::object* rope) {
  if (scaling.is_object()) {
    merge_json(scaling.get_object(), rope);
    if (const json::value* type = scaling.get_object().if_contains("type"))
      (*rope)["rope_type"] = *type;
  } else if (scaling.is_null()) {
    (*rope)["rope_type"] = "default";
  }
}

}  // namespace

void apply_hf_overrides(const json::object& over, json::object* config) {
  json::object* rope = over.contains("rope_parameters") ? nullptr : rope_parameters(*config);
  if (rope != nullptr) {
    if (const json::value* scaling = over.if_contains("rope_scaling")) set_scaling(*scaling, rope);
    for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
      if (const json::value* value = over.if_contains(key)) (*rope)[key] = *value;
    }
  }
  const json::value* dtype = over.if_contains("torch_dtype");
  if (dtype != nullptr && config->contains("dtype")) (*config)["dtype"] = *dtype;
  merge_json(over, config);
}

}  // namespace quire
