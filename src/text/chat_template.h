// Renders a chat with a Hugging Face Jinja template, by `minijinja`. Thread safe once built.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace quire {

class ChatTemplate {
 public:
  // A template that doesn't compile is refused with its line.
  static Result<std::unique_ptr<ChatTemplate>> create(std::string_view source,
                                                      const SpecialTokens& special);
  ~ChatTemplate();

  struct Input {
    std::string_view messages_json = {};   // JSON array of messages
    std::string_view tools_json = {};      // JSON array or empty
    std::string_view documents_json = {};  // JSON array or empty
    std::string_view kwargs_json = {};     // JSON object with more variables, or empty
    bool add_generation_prompt = true;
    bool continue_final_message = false;  // leave the last message's turn open
  };
  // raise_exception() in the template gives kInvalidArgument with its text.
  Result<std::string> render(const Input& input) const;
  const std::string& source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
