// The C++ face of the text crate's chat templates. Immutable once built.
#include "text/chat_template.h"

#include <quire-text/src/lib.rs.h>

#include <utility>

#include "text/rust_call.h"

namespace quire {

struct ChatTemplate::Impl {
  Impl(rust::Box<rs::Template> h, std::string_view text) : handle(std::move(h)), source(text) {}
  rust::Box<rs::Template> handle;
  std::string source;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(std::string_view source,
                                                           const SpecialTokens& special) {
  QUIRE_ASSIGN(auto handle, rust_call(ErrorCode::kInvalidArgument, [&] {
                 rs::SpecialNames names{};
                 names.bos = rust::String::lossy(special.bos_token);
                 names.eos = rust::String::lossy(special.eos_token);
                 names.unk = rust::String::lossy(special.unk_token);
                 names.pad = rust::String::lossy(special.pad_token);
                 return rs::template_new(rust_bytes(source), std::move(names));
               }));
  return std::unique_ptr<ChatTemplate>(
      new ChatTemplate(std::make_unique<Impl>(std::move(handle), source)));
}

Result<std::string> ChatTemplate::render(const Input& input) const {
  return rust_call(ErrorCode::kInvalidArgument, [&] {
    rs::ChatInput chat{};
    chat.messages = rust_bytes(input.messages_json);
    chat.tools = rust_bytes(input.tools_json);
    chat.documents = rust_bytes(input.documents_json);
    chat.kwargs = rust_bytes(input.kwargs_json);
    chat.add_generation_prompt = input.add_generation_prompt;
    chat.continue_final_message = input.continue_final_message;
    return std::string(rs::template_render(*impl_->handle, chat));
  });
}

const std::string& ChatTemplate::source() const { return impl_->source; }

}  // namespace quire
