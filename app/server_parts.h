// What `serve` and `run-batch` share: flags about requests, what the model says about them, its
// text layer.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <string>

#include "app/load.h"
#include "server/server_options.h"
#include "server/text_service.h"

namespace quire {

void add_protocol_flags(CLI::App& command, ServerOptions& options);
void complete_options(ServerOptions& options, const EngineFlags& flags, const LoadedModel& model);
void set_log_level(const std::string& name);  // "debug", "info", "warning", "error"

// Ids that the embedding has no row for are no tokens, whatever the tokenizer says.
class ServedText : public ModelTextService {
 public:
  explicit ServedText(const LoadedModel& model)
      : ModelTextService(model.tokenizer.get(), model.chat_template.get(), &grammars_),
        rows_(static_cast<std::size_t>(model.config.vocab_size)),
        grammars_(model.tokenizer.get(), model.end_ids, rows_) {}
  std::size_t vocab_size() const override {
    return std::min(rows_, ModelTextService::vocab_size());
  }

 private:
  std::size_t rows_;
  GrammarCompiler grammars_;
};

}  // namespace quire
