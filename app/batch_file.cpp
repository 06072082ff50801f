#include "app/batch_file.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>

#include "server/protocol/field_table.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;

json::object head(const std::string& id, const std::string& custom_id) {
  json::object out;
  out["id"] = id;
  out["custom_id"] = custom_id.empty() ? json::value(nullptr) : json::value(custom_id);
  return out;
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

std::string custom_id_of(const std::string& line) {
  std::string out;
  (void)parse_batch_line(line, &out);
  return out;
}

}  // namespace

Result<BatchLine> parse_batch_line(std::string_view line, std::string* custom_id) {
  QUIRE_ASSIGN(const auto object, parse_object(line));
  const auto text = [&](const char* key) -> Result<std::string> {
    const auto* value = object.if_contains(key);
    if (value == nullptr) return field_error(key, "`{}` is missing", key);
    return read_string(*value, key);
  };
  BatchLine out;
  QUIRE_ASSIGN(out.custom_id, text("custom_id"));
  *custom_id = out.custom_id;
  if (object.contains("method")) {
    QUIRE_ASSIGN(const std::string method, text("method"));
    if (method != "POST")
      return field_error("method", "`method` must be POST, but it is {}", method);
  }
  QUIRE_ASSIGN(out.url, text("url"));
  const auto* body = object.if_contains("body");
  if (body == nullptr) return field_error("body", "`body` is missing");
  QUIRE_TRY(read_object(*body, "body"));
  out.body = json::serialize(*body);
  return out;
}

std::string reply_line(const std::string& id, const std::string& custom_id, int status,
                       const std::string& request_id, std::string_view reply_body) {
  json::object out = head(id, custom_id);
  json::object response;
  response["status_code"] = status;
  response["request_id"] = request_id;
  auto body = parse_json(reply_body);
  response["body"] = body ? std::move(*body) : json::value(nullptr);
  out["response"] = std::move(response);
  out["error"] = nullptr;
  return json::serialize(out);
}

std::string error_line(const std::string& id, const std::string& custom_id,
                       const std::string& message) {
  json::object out = head(id, custom_id);
  out["response"] = nullptr;
  out["error"] = json::object{{"code", "invalid_line"}, {"message", message}};
  return json::serialize(out);
}

Result<std::size_t> lines_done(const std::string& input, const std::string& output) {
  std::ifstream out(output, std::ios::binary), in(input, std::ios::binary);
  if (!out) return std::size_t{0};
  std::size_t count = 0;
  std::uintmax_t whole_bytes = 0;
  std::string answer, question;
  while (std::getline(out, answer) && !out.eof()) {  // eof: no newline at its end
    do {
      if (!std::getline(in, question)) {
        return make_error(ErrorCode::kInvalidArgument,
                          "{} has more lines than {}: it holds answers to another input; remove it "
                          "or name another",
                          output, input);
      }
    } while (is_blank(question));
    const auto parsed = parse_object(answer);
    const std::string id = custom_id_of(question);
    const auto* given = parsed ? parsed->if_contains("custom_id") : nullptr;
    if (given == nullptr || (given->is_string() ? given->get_string() != id : !id.empty())) {
      return make_error(ErrorCode::kInvalidArgument,
                        "line {} of {} is no answer to that of {}: remove it or name another",
                        count + 1, output, input);
    }
    whole_bytes += answer.size() + 1;
    ++count;
  }
  out.close();
  std::error_code error;
  std::filesystem::resize_file(output, whole_bytes, error);
  if (error) return make_error(ErrorCode::kBadFile, "{}: {}", output, error.message());
  return count;
}

void OrderedWriter::write(std::size_t number, std::string line) {
  std::lock_guard lock(mutex_);
  waiting_.emplace(number, std::move(line));
  for (auto it = waiting_.begin(); it != waiting_.end() && it->first == next_;
       it = waiting_.erase(it), ++next_) {
    *out_ << it->second << '\n' << std::flush;
  }
  written_.notify_all();
}

void OrderedWriter::wait_within(std::size_t number, std::size_t ahead) {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [&] { return number < next_ + ahead || !out_->good(); });
}

bool OrderedWriter::failed() const {
  std::lock_guard lock(mutex_);
  return !out_->good();
}

}  // namespace quire
