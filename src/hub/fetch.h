// From a model's name on the hub to its path in the cache: what `quire pull`, and every command
// that takes a MODEL, does.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub_settings.h"
#include "hub/model_ref.h"

namespace quire {

// What of a repository is wanted: the model, its configuration and tokenizer without weights, or
// the tokenizer alone.
enum class FetchPart { kModel, kConfig, kTokenizer };

// Looks at a snapshot's folder once its small files are there, before the weights are fetched: an
// error ends the fetch, so that gigabytes are not fetched of a model that could not be served.
using FolderCheck = std::function<Status(const std::string& folder)>;

// The snapshot's folder (safetensors, and parts of a model) or its first GGUF file; fetched where
// it is not in the cache yet. The hub is not asked for a commit whose files are here, nor when
// offline; for a branch or tag it is asked where that is now, and when it cannot be reached what
// the cache has is used, with a warning.
Result<std::string> fetch_model(const ModelRef& ref, const HubSettings& settings,
                                FetchPart part = FetchPart::kModel, const FolderCheck& check = {});

}  // namespace quire
