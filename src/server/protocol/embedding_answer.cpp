// Answers of /v1/embeddings.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>

#include "server/protocol/answer.h"

namespace quire {
namespace {

namespace json = boost::json;

// Keeps the first `dimensions` numbers (0: all), then scales to length 1 if asked.
std::vector<float> shape(std::vector<float> values, const EmbeddingShape& wanted) {
  if (wanted.dimensions > 0 && wanted.dimensions < values.size()) values.resize(wanted.dimensions);
  if (!wanted.normalize) return values;
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float& x : values) x = static_cast<float>(static_cast<double>(x) * scale);
  return values;
}

std::string base64(const std::vector<float>& values) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t b = 0; b < 3; ++b) group = (group << 8) | (b < left ? bytes[i + b] : 0u);
    for (std::size_t d = 0; d < 4; ++d)
      out += d <= left ? kDigits[(group >> (18 - 6 * d)) & 63u] : '=';
  }
  return out;
}

class EmbeddingAnswer : public Answer {
 public:
  EmbeddingAnswer(AnswerOptions options, EmbeddingShape wanted, const TextService* text,
                  std::vector<Choice> choices)
      : Answer(std::move(options), text, std::move(choices)), wanted_(wanted) {}

  std::string body() override {
    json::object out;
    out["id"] = options_.id;
    out["object"] = "list";
    out["created"] = options_.created;
    out["model"] = options_.model;
    json::array data;
    for (std::size_t i = 0; i < choices_.size(); ++i)
      data.emplace_back(choice_json(i, choices_[i]));
    out["data"] = std::move(data);
    json::object usage = total_usage();
    usage["completion_tokens"] = 0;
    usage["total_tokens"] = usage["prompt_tokens"];
    out["usage"] = std::move(usage);
    return json::serialize(out);
  }

 private:
  std::string_view object_name() const override { return "list"; }
  void emit(std::size_t, Choice&, std::string*) override {}  // never a stream
  json::object choice_json(std::size_t index, Choice& choice) override {
    const std::vector<float> values = shape(std::move(choice.embedding), wanted_);
    json::object out;
    out["index"] = static_cast<std::int64_t>(index);
    out["object"] = "embedding";
    if (wanted_.base64) {
      out["embedding"] = base64(values);
    } else {
      out["embedding"] = json::array(values.begin(), values.end());
    }
    return out;
  }

  EmbeddingShape wanted_;
};

}  // namespace

std::unique_ptr<Answer> make_embedding_answer(AnswerOptions options, EmbeddingShape wanted,
                                              const TextService* text,
                                              std::vector<Choice> choices) {
  return std::make_unique<EmbeddingAnswer>(std::move(options), wanted, text, std::move(choices));
}

}  // namespace quire
