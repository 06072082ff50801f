#include "server/offline_call.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/output_channel.h"
#include "server/protocol/error_body.h"

namespace quire {
namespace {

using Prepare = Result<PreparedCall> (*)(const ProtocolContext&, std::string_view, const CallInfo&);

struct OfflineRoute {
  std::string_view url;
  Prepare prepare;
};
constexpr std::array kRoutes{OfflineRoute{"/v1/chat/completions", &prepare_chat},
                             OfflineRoute{"/v1/completions", &prepare_completion},
                             OfflineRoute{"/v1/embeddings", &prepare_embedding}};

OfflineReply failure(const Error& error) { return {http_status(error.code), error_body(error)}; }

// Runs the requests of one call to their ends.
class Run {
 public:
  Run(Generator* generator, PreparedCall call) : generator_(generator), call_(std::move(call)) {}
  ~Run() {
    for (auto& channel : channels_) channel->close();
    for (std::size_t i = 0; i < submitted_; ++i) generator_->abort(ids_[i]);
  }

  OfflineReply finish() {
    if (auto status = submit_all(); !status) return failure(status.error());
    while (!call_.answer->complete()) {
      if (channels_.empty()) return end_at_once();
      wait();
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        auto delta = channels_[i]->take();
        if (!delta) continue;
        if (delta->error || delta->finish == FinishReason::kError ||
            delta->finish == FinishReason::kAbort) {
          return failure(
              delta->error.value_or(Error{ErrorCode::kUnavailable, "the request was aborted", ""}));
        }
        call_.answer->on_delta(i, std::move(*delta), &no_events_);
      }
    }
    return {200, call_.answer->body()};
  }

 private:
  Status submit_all() {
    for (Request& request : call_.requests) {
      request.channel = std::make_shared<OutputChannel>([this] { wake(); });
      channels_.push_back(request.channel);
      ids_.push_back(request.id);
    }
    if (channels_.empty()) return {};
    QUIRE_TRY(generator_->submit(std::move(call_.requests)));
    submitted_ = ids_.size();
    return {};
  }
  // Nothing has to be computed.
  OfflineReply end_at_once() {
    for (std::size_t i = 0; i < call_.answer->num_choices(); ++i) {
      OutputDelta end;
      end.finish = FinishReason::kLength;
      call_.answer->on_delta(i, std::move(end), &no_events_);
    }
    return {200, call_.answer->body()};
  }
  void wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }

  Generator* generator_;
  PreparedCall call_;
  std::vector<std::shared_ptr<OutputChannel>> channels_;
  std::vector<RequestId> ids_;
  std::size_t submitted_ = 0;
  std::string no_events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace

OfflineReply OfflineCaller::call(std::string_view url, std::string_view body,
                                 const std::string& request_id, std::uint64_t seed) {
  for (const OfflineRoute& route : kRoutes) {
    if (route.url != url) continue;
    SeedSource seeds(seed);
    const ProtocolContext context{options_, text_, generator_, &seeds, &dry_breakers_, &dialect_};
    auto prepared = route.prepare(context, body, {request_id, now_s()});
    if (!prepared) return failure(prepared.error());
    if (prepared->answer->stream()) {
      return failure(
          {ErrorCode::kInvalidArgument, "`stream` is not possible here: leave it out", "stream"});
    }
    return Run(generator_, std::move(*prepared)).finish();
  }
  return failure({ErrorCode::kNotFound, fmt::format("there is no POST {} here", url), "url"});
}

}  // namespace quire
