// Tokenizer and chat template as the protocol layer sees them. Thread safe. A fake stands in for it
// in tests.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace quire {

class TextService {
 public:
  virtual ~TextService() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              bool add_special_tokens) const = 0;
  // Also where each token stands in the text.
  virtual Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens,
                                              std::vector<TokenSpan>* spans) const = 0;
  virtual std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const = 0;
  virtual std::string_view token_bytes(TokenId id) const = 0;
  virtual std::string_view token_text(TokenId id) const = 0;
  virtual std::size_t vocab_size() const = 0;
  virtual std::size_t max_token_bytes() const = 0;  // of the longest token
  virtual bool has_chat_template() const = 0;
  virtual std::string_view chat_template_source() const { return {}; }  // empty: none
  virtual SpecialTokens special() const { return {}; }
  // The id of the special token of this text.
  virtual std::optional<TokenId> special_token(std::string_view) const { return {}; }
  // With template_source empty, the model's own template.
  virtual Result<std::string> render(const ChatTemplate::Input& input,
                                     std::string_view template_source) const = 0;
  // Whether compile_grammar gives it at once.
  virtual bool has_grammar(const GrammarSpec& spec) const = 0;
  // May take seconds; what was compiled lately is kept.
  virtual Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) const = 0;
};

// The model's own; the pointers outlive it. chat_template may be null (a base model), and
// grammars (then there is no constrained output).
class ModelTextService : public TextService {
 public:
  ModelTextService(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                   GrammarCompiler* grammars = nullptr);
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override;
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens,
                                      std::vector<TokenSpan>* spans) const override;
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const override;
  std::string_view token_bytes(TokenId id) const override;
  std::string_view token_text(TokenId id) const override;
  std::size_t vocab_size() const override;
  std::size_t max_token_bytes() const override { return max_token_bytes_; }
  bool has_chat_template() const override { return chat_template_ != nullptr; }
  std::string_view chat_template_source() const override;
  SpecialTokens special() const override { return tokenizer_->special(); }
  std::optional<TokenId> special_token(std::string_view text) const override;
  Result<std::string> render(const ChatTemplate::Input& input,
                             std::string_view template_source) const override;
  bool has_grammar(const GrammarSpec& spec) const override {
    return grammars_ == nullptr || grammars_->is_ready(spec);
  }
  Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) const override;

 private:
  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  GrammarCompiler* grammars_;
  std::size_t max_token_bytes_ = 1;
};

}  // namespace quire
