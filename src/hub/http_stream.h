// One connection, plain or over TLS, whose calls wait: each starts one asynchronous operation and
// runs it to its end or to the time limit. It is what Beast calls a SyncStream, so that Beast's
// reading and writing of HTTP is compiled once, for this type, and not for each kind of stream and
// each handler. Belongs to one thread.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "hub/url.h"

namespace quire {

class HttpStream {
 public:
  using error_code = boost::beast::error_code;

  // timeout_s: for connecting, and without a byte. ca_file: empty for the system's certificates.
  HttpStream(double timeout_s, std::string ca_file);
  ~HttpStream();

  // Reads the certificates, once. Needed before shake_hands.
  Status make_tls();
  // Both: empty text is success, other text is why not (worth a new try).
  std::string connect(const Url& peer);
  // Checks the server's certificate and name; an untrusted one is an Error. What is read and
  // written from now on is encrypted.
  Result<std::string> shake_hands(const Url& url);
  void close();

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, error_code& error) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const boost::asio::mutable_buffer buffer(*at);
      if (buffer.size() > 0) return read(buffer, error);
    }
    error = {};
    return 0;
  }
  // Joined, so that a request is one TLS record. Requests have no body: they are small.
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, error_code& error) {
    out_.resize(boost::asio::buffer_size(buffers));
    boost::asio::buffer_copy(boost::asio::buffer(out_), buffers);
    return write(error);
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) {
    error_code error;
    const std::size_t num_bytes = read_some(buffers, error);
    if (error) throw boost::beast::system_error(error);
    return num_bytes;
  }
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers) {
    error_code error;
    const std::size_t num_bytes = write_some(buffers, error);
    if (error) throw boost::beast::system_error(error);
    return num_bytes;
  }

 private:
  struct Impl;
  std::size_t read(boost::asio::mutable_buffer buffer, error_code& error);
  std::size_t write(error_code& error);  // of out_

  std::string out_;
  std::unique_ptr<Impl> impl_;
};

// For people; a time limit and a cut connection are named the same for plain and TLS connections.
std::string describe_network_error(const HttpStream::error_code& error);

}  // namespace quire
