#include "app/resolve_model.h"

#include <csignal>
#include <filesystem>
#include <optional>

#include "weights/open_config.h"

namespace quire {
namespace {

// The server blocks these until it is ready; a download may take hours.
class EndingSignalsUnblocked {
 public:
  EndingSignalsUnblocked() {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &ending, &before_);
  }
  ~EndingSignalsUnblocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Result<ModelRef> require_model_ref(const std::string& text) {
  const std::optional<ModelRef> ref = parse_model_ref(text);
  if (!ref)
    return make_error(ErrorCode::kInvalidArgument,
                      "\"{}\" is no name of a model on the hub: use ORG/NAME, or ORG/NAME:QUANT "
                      "for a GGUF (e.g. :Q4_K_M)",
                      text);
  return *ref;
}

Result<std::string> fetch_interruptibly(const ModelRef& ref, const HubSettings& settings,
                                        FetchPart part, const FolderCheck& check) {
  std::signal(SIGPIPE, SIG_IGN);
  const EndingSignalsUnblocked unblocked;
  return fetch_model(ref, settings, part, check);
}

namespace {

Result<std::string> resolve(const std::string& model, const HubFlags& flags, FetchPart part,
                            const FolderCheck& check) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) return model;
  const std::optional<ModelRef> ref = parse_model_ref(model);
  if (!ref) return model;
  QUIRE_ASSIGN(const HubSettings settings, read_hub_settings(flags));
  Result<std::string> path = fetch_interruptibly(*ref, settings, part, check);
  // A word alone is more often a path that was typed wrongly than one of the hub's old names.
  if (!path && ref->repo.find('/') == std::string::npos)
    return make_error(path.error().code, "{} (and no file or folder \"{}\" is here)",
                      path.error().message, model);
  return path;
}

}  // namespace

Result<std::string> resolve_model(const std::string& model, const HubFlags& flags,
                                  const OpenFlags& open) {
  if (open.load_format == "dummy") return resolve(model, flags, FetchPart::kConfig, {});
  return resolve(model, flags, FetchPart::kModel, [&](const std::string& folder) -> Status {
    QUIRE_TRY(open_without_weights(folder, open.options));
    return {};
  });
}

Result<std::string> resolve_tokenizer(const std::string& tokenizer, const HubFlags& flags) {
  HubFlags hub = flags;
  hub.revision.clear();  // of the model's repository, not of this one
  return resolve(tokenizer, hub, FetchPart::kTokenizer, {});
}

}  // namespace quire
