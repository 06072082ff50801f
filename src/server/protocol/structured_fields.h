// The fields that say what an answer must fit: response_format, structured_outputs and the older
// guided_* names. They become CommonRequest::grammar; at most one of them may constrain the answer.
#pragma once

#include <span>
#include <string_view>

#include "server/protocol/common_request.h"
#include "server/server_options.h"

namespace quire {

std::span<const Field<CommonRequest>> structured_fields();

// The value of --structured-outputs-config.
Result<StructuredOutputDefaults> parse_structured_outputs_config(std::string_view text);

}  // namespace quire
