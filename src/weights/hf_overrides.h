// --hf-overrides: what the user lays over a config.json. Pure function.
#pragma once

#include <boost/json/object.hpp>

namespace quire {

// Lays `over` over *config (nested objects merge). Keys in the spelling of older files reach newer
// ones too, whose rope_parameters and dtype would hide them: rope_scaling, rope_theta,
// partial_rotary_factor, torch_dtype.
void apply_hf_overrides(const boost::json::object& over, boost::json::object* config);

}  // namespace quire
