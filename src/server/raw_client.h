// A blocking socket client that shows raw HTTP. For tests only.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace quire {

struct RawReply {
  int status = 0;                              // 0: the connection closed first
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void shut_write() { ::shutdown(fd_, SHUT_WR); }
  void send(std::string_view data) {
    while (!data.empty()) {
      const auto n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      data.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void post(std::string_view path, std::string_view body, std::string_view more = "") {
    send(
        fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: "
                    "application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                    path, body.size(), more, body));
  }
  void get(std::string_view path, std::string_view more = "") {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path, more));
  }
  RawReply read(bool head = false) {
    RawReply reply;
    std::string line;
    if (!read_line(&line)) return reply;
    reply.status = std::stoi(line.substr(9, 3));
    while (read_line(&line) && !line.empty()) {
      const auto colon = line.find(':');
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = line.substr(colon + 2);
    }
    if (head || reply.status < 200) return reply;
    if (reply.headers.count("transfer-encoding") &&
        reply.headers.at("transfer-encoding") == "chunked") {
      while (read_line(&line)) {
        const auto size = std::stoul(line, nullptr, 16);
        reply.body += take(size);
        read_line(&line);
        if (size == 0) break;
      }
    } else if (reply.headers.count("content-length")) {
      reply.body = take(std::stoul(reply.headers["content-length"]));
    } else {
      while (fill()) {
      }
      reply.body = std::exchange(buffer_, {});
    }
    return reply;
  }
  // True when the server has closed the connection.
  bool at_end() { return buffer_.empty() && !fill(); }
  bool fill() {
    char chunk[4096];
    const auto n = ::recv(fd_, chunk, sizeof(chunk), 0);
    if (n <= 0) return false;
    buffer_.append(chunk, static_cast<std::size_t>(n));
    return true;
  }
  const std::string& buffer() const { return buffer_; }

 private:
  bool read_line(std::string* line) {
    std::size_t end;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return false;
    }
    *line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return true;
  }
  std::string take(std::size_t size) {
    while (buffer_.size() < size && fill()) {
    }
    std::string out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return out;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace quire
