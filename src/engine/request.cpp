// Names of finish reasons as the APIs spell them.
#include "engine/request.h"

namespace quire {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      return "error";
    case FinishReason::kRepetition:
      return "repetition";
  }
  return "error";
}

}  // namespace quire
