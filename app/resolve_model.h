// From what the user calls a model to a path: a file or folder that is there, else a name on the
// hub.
#pragma once

#include <string>

#include "app/flags.h"
#include "base/result.h"
#include "hub/fetch.h"

namespace quire {

// An existing path stays as it is; [ORG/]NAME[:QUANT] becomes its path in the model cache, what
// --load-format needs of it fetched where need be (weights only when the configuration can be
// read); anything else stays as it is, for the reader of model files to refuse.
Result<std::string> resolve_model(const std::string& model, const HubFlags& flags,
                                  const OpenFlags& open);
// The same of a tokenizer.
Result<std::string> resolve_tokenizer(const std::string& tokenizer, const HubFlags& flags);

// ORG/NAME[:QUANT], or an error that says how a name looks.
Result<ModelRef> require_model_ref(const std::string& text);
// fetch_model, during which Ctrl-C and SIGTERM end the process at once (what is there is kept).
Result<std::string> fetch_interruptibly(const ModelRef& ref, const HubSettings& settings,
                                        FetchPart part = FetchPart::kModel,
                                        const FolderCheck& check = {});

}  // namespace quire
