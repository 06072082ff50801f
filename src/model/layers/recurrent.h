// Mixers that keep a state instead of a KV cache. Each loads its weights from
// "<prefix><spec.name>.…" and computes a sequence's rows in order, so that prefill, chunks and
// decode give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/layers/mixer.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

// prefix: "model.layers.3."
Result<std::unique_ptr<Mixer>> load_mamba(WeightLoader& loader, const std::string& prefix,
                                          std::int64_t hidden, const MambaSpec& spec);
Result<std::unique_ptr<Mixer>> load_mamba2(WeightLoader& loader, const std::string& prefix,
                                           std::int64_t hidden, const Mamba2Spec& spec);
Result<std::unique_ptr<Mixer>> load_delta_net(WeightLoader& loader, const std::string& prefix,
                                              std::int64_t hidden, const DeltaNetSpec& spec);
Result<std::unique_ptr<Mixer>> load_short_conv(WeightLoader& loader, const std::string& prefix,
                                               std::int64_t hidden, const ShortConvSpec& spec);

}  // namespace quire
