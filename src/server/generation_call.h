// One generation request from its submission to its reply: takes deltas from the engine's channels,
// hands them to the Answer, writes. Lives on its connection's strand; kept alive by its exchange
// until the reply is over or the client is gone, which aborts what runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/output_channel.h"
#include "server/generator.h"
#include "server/http/http_server.h"
#include "server/protocol/answer.h"

namespace quire {

class GenerationCall : public std::enable_shared_from_this<GenerationCall> {
 public:
  // Any thread. One request per choice of the answer; one without a prompt to run (max_tokens 0 and
  // nothing to score) has no requests: its choices end at once. `token` is let go of with the call.
  static void start(std::shared_ptr<Exchange> exchange, Generator* generator,
                    std::unique_ptr<Answer> answer, std::vector<Request> requests,
                    std::shared_ptr<void> token);

 private:
  struct Running {
    RequestId id;
    std::shared_ptr<OutputChannel> channel;
    bool finished = false;
  };

  void begin(std::vector<Request> requests);
  void wake();  // any thread
  void pump();
  // False when the call is over.
  bool take_from(std::size_t index, std::string* events);
  void finish(std::string events);
  void fail(const Error& error);
  void abort_rest();
  void write(std::string events);

  std::shared_ptr<Exchange> exchange_;
  Generator* generator_ = nullptr;
  std::unique_ptr<Answer> answer_;
  std::shared_ptr<void> token_;
  std::vector<Running> running_;
  std::atomic<bool> pump_posted_ = false;
  bool streaming_ = false;  // the head is out: errors can only be events now
  bool over_ = false;
};

}  // namespace quire
