// How the served model writes reasoning and calls: from the flags, else from its chat template.
// Made once, at the start; immutable.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "dialect/call_form.h"
#include "dialect/dialects.h"
#include "dialect/thinking_counter.h"
#include "server/server_options.h"
#include "server/text_service.h"

namespace quire {

struct ChatDialect {
  Dialect dialect;
  // Special tokens whose text the parser must see, though the client never does.
  std::shared_ptr<const std::vector<TokenId>> shown;
  const CallForm* form = nullptr;  // how calls are written; null: they are not read
  ThinkingMarks thinking;          // empty: its tokens can't be told from the others
  // False: the template shows the model neither tools nor calls; they are written into messages.
  bool template_has_tools = false;
};

// An unknown name of a parser is an error that lists the known ones.
Status check_parser_names(const ServerOptions& options);
// Of options whose names have been checked.
ChatDialect make_chat_dialect(const ServerOptions& options, const TextService& text);

}  // namespace quire
