// The checks that every configuration must pass, whatever file it came from.
#pragma once

#include <string_view>

#include "base/result.h"
#include "weights/model_config.h"

namespace quire {

// Sizes positive and within bounds, heads that divide: what may be counted up to afterwards.
Status check_sizes(const ModelConfig& config, std::string_view name);

// check_sizes, and numbers that make sense. name: for messages.
Status check_config(const ModelConfig& config, std::string_view name);

// Adds id to the ends of sequence, keeping them sorted and unique. Ids outside the vocabulary are
// left out: such a token cannot be sampled, and real files name some.
void add_eos_id(ModelConfig* config, std::int64_t id);

}  // namespace quire
