// From flags to a running engine: the order in which everything is made. Each stage logs one line
// with its time.
#pragma once

#include <memory>
#include <string>

#include "app/flags.h"
#include "engine/engine.h"
#include "executor/model_runner.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/pooling_config.h"
#include "weights/weight_source.h"

namespace quire {

// Owned parts in the order of their making; destroyed in the reverse one.
struct LoadedModel {
  std::string name;  // path as the user gave it
  ModelConfig config;
  bool is_gguf = false;
  std::unique_ptr<WeightSource> weights;  // maps the file: the embedding table stays there
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null: the model has none
  std::int64_t max_model_len = 0;
  PoolingConfig pooling;
  std::vector<TokenId> end_ids;         // ends of a turn, from every place that names one
  std::unique_ptr<ModelRunner> runner;  // moved into the engine by start_engine
  KvSizing kv;
  std::int32_t snapshot_interval = 0;  // tokens from one snapshot of recurrent state to the next
  bool prefix_caching = true;          // as asked, and the model can
};

// Path of the default model next to the source tree or the executable, or an error that says how to
// fetch it.
Result<std::string> default_model_path();
Result<LoadedModel> load_model(const EngineFlags& flags);
// The engine takes the runner; `model` outlives it.
Result<std::unique_ptr<Engine>> start_engine(LoadedModel& model, const EngineFlags& flags,
                                             EngineObserver* observer);

}  // namespace quire
