// Plain HTTP messages, free of any library's types: what handlers read and answer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct HttpRequest {
  std::string method;  // "GET", "POST", ...
  std::string target;  // as sent: path and query
  std::string path;    // without the query; percent-encoding undone
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  double arrival_s = 0;  // now_s() when the request was complete

  // Value of the first header of that (lower-case) name; empty when absent.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // more of them
};

}  // namespace quire
