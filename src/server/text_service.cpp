#include "server/text_service.h"

#include <algorithm>

namespace quire {

ModelTextService::ModelTextService(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                                   GrammarCompiler* grammars)
    : tokenizer_(tokenizer), chat_template_(chat_template), grammars_(grammars) {
  const auto vocab_size = static_cast<TokenId>(tokenizer->vocab_size());
  for (TokenId id = 0; id < vocab_size; ++id) {
    max_token_bytes_ = std::max(max_token_bytes_, tokenizer->token_bytes(id).size());
  }
}

Result<std::vector<TokenId>> ModelTextService::encode(std::string_view text,
                                                      bool add_special_tokens) const {
  return tokenizer_->encode(text, add_special_tokens);
}
Result<std::vector<TokenId>> ModelTextService::encode(std::string_view text,
                                                      bool add_special_tokens,
                                                      std::vector<TokenSpan>* spans) const {
  return tokenizer_->encode(text, add_special_tokens, spans);
}
std::string ModelTextService::decode(const std::vector<TokenId>& ids,
                                     bool skip_special_tokens) const {
  return tokenizer_->decode(ids, skip_special_tokens);
}
std::string_view ModelTextService::token_bytes(TokenId id) const {
  return tokenizer_->token_bytes(id);
}
std::string_view ModelTextService::token_text(TokenId id) const {
  return tokenizer_->token_text(id);
}
std::size_t ModelTextService::vocab_size() const { return tokenizer_->vocab_size(); }

std::string_view ModelTextService::chat_template_source() const {
  return chat_template_ == nullptr ? std::string_view() : chat_template_->source();
}
std::optional<TokenId> ModelTextService::special_token(std::string_view text) const {
  const auto id = tokenizer_->token_id(text);
  return id && tokenizer_->is_special(*id) ? id : std::nullopt;
}

Result<std::string> ModelTextService::render(const ChatTemplate::Input& input,
                                             std::string_view template_source) const {
  if (template_source.empty()) {
    if (chat_template_ == nullptr) {
      return make_error(
          ErrorCode::kUnsupported,
          "this model has no chat template: use /v1/completions, or start the server with "
          "--chat-template FILE");
    }
    return chat_template_->render(input);
  }
  QUIRE_ASSIGN(auto own, ChatTemplate::create(template_source, tokenizer_->special()));
  return own->render(input);
}

Result<std::shared_ptr<const Grammar>> ModelTextService::compile_grammar(
    const GrammarSpec& spec) const {
  if (grammars_ == nullptr) {
    return make_error(ErrorCode::kUnsupported, "there is no constrained output here");
  }
  return grammars_->compile(spec);
}

}  // namespace quire
