// The parts of reading a config.json, each over the same JSON object: the model's own, with a
// multimodal model's text_config laid over it and the family's defaults added. Used by
// parse_hf_config only.
#pragma once

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string_view>

#include "base/result.h"
#include "weights/hf_families.h"
#include "weights/json_fields.h"
#include "weights/model_config.h"

namespace quire {

struct HfSource {
  const boost::json::object& object;
  JsonFields fields;
  std::string_view model_type;
  const HfFamily& family;
};

// The first of the spellings that is present and not null; the first of all when none is.
std::string_view spelled(const JsonFields& fields, std::initializer_list<std::string_view> keys);

// *out = the number, untouched when absent.
Status read_number(const JsonFields& fields, std::string_view key, double* out);

// config->rope and sliding_rope. Needs the head size, the context length and the layer types.
Status read_hf_rope(const HfSource& source, ModelConfig* config);
// config->layer_types and sliding_window. Needs the number of layers.
Status read_hf_layers(const HfSource& source, ModelConfig* config);
// Every scalar and list of the object into *fields, nested objects with dotted names.
void flatten_json(const boost::json::object& object, ConfigFields* fields);

}  // namespace quire
