// One HTTP/1.1 request after the other over one kept connection, http or https. Blocking; an object
// belongs to one thread. The server's certificate and name are checked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/proxy.h"
#include "hub/url.h"

namespace quire {

struct HttpReply {
  int status = 0;                              // 0: no answer came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // what no sink took
  std::string failure;  // why the transfer is not whole (worth a new try); empty: it is

  std::string header(const std::string& name) const {  // empty when absent
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// Takes the body of a 200 or 206.
struct BodySink {
  std::function<Status(const HttpReply&)> begin;             // the head of the answer
  std::function<Result<bool>(std::span<const char>)> write;  // false: enough
};

struct HttpOptions {
  double timeout_s = 30;  // for connecting, and without a byte
  std::string ca_file;    // empty: the system's certificates
  ProxySettings proxy;
};

class HttpClient {
 public:
  explicit HttpClient(const HttpOptions& options);
  ~HttpClient();

  using Headers = std::map<std::string, std::string>;
  // method: GET or HEAD. Redirects are not followed. An Error is what no new try can mend: an
  // untrusted certificate, an error of the sink.
  Result<HttpReply> request(const std::string& method, const Url& url, const Headers& headers,
                            const BodySink* sink = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
