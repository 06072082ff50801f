#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace quire {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// vLLM's buckets.
const Buckets kFirstTokenS{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                           1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kInterTokenS{.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                           .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Buckets kRequestS{.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kIterationTokens{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

// 1, 2, 5, 10, 20, 50, ... up to the limit.
Buckets one_two_five(std::int32_t limit) {
  Buckets out;
  for (double scale = 1; scale <= limit; scale *= 10) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      if (mantissa * scale <= limit) out.push_back(mantissa * scale);
    }
  }
  if (out.empty()) out.push_back(1);
  return out;
}

}  // namespace

struct ServerMetrics::Impl {
  explicit Impl(const MetricsOptions& options)
      : labels{{"model_name", options.model_name}, {"engine", "0"}},
        token_buckets(one_two_five(options.max_model_len)) {
    Labels config = options.cache_config;
    config.insert(labels.begin(), labels.end());
    prometheus::BuildGauge()
        .Name("vllm:cache_config_info")
        .Help("Settings of the KV cache, as labels.")
        .Register(registry)
        .Add(config)
        .Set(1);
    for (const char* reason : {"capacity", "deferred"}) {
      Labels with_reason = labels;
      with_reason["reason"] = reason;
      waiting_by_reason.push_back(&waiting_family.Add(with_reason));
    }
    for (const char* reason : {"max_num_queued_reqs", "max_num_queued_tokens"}) {
      Labels with_reason = labels;
      with_reason["reason"] = reason;
      rejections.push_back(&rejection_family.Add(with_reason));
    }
    for (std::size_t i = 0; i < success.size(); ++i) {
      Labels with_reason = labels;
      with_reason["finished_reason"] =
          std::string(finish_reason_name(static_cast<FinishReason>(i)));
      success[i] = &success_family.Add(with_reason);
    }
  }

  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     buckets);
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  // Brings a counter up to the engine's own count.
  static void raise(prometheus::Counter& counter, std::int64_t total) {
    const double more = static_cast<double>(total) - counter.Value();
    if (more > 0) counter.Increment(more);
  }

  prometheus::Registry registry;
  const Labels labels;
  const Buckets token_buckets;
  std::mutex scrape_mutex;

  prometheus::Gauge& running = gauge("vllm:num_requests_running", "Requests in the batch.");
  prometheus::Gauge& waiting =
      gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.");
  prometheus::Gauge& kv_usage =
      gauge("vllm:kv_cache_usage_perc", "Used share of the KV cache; 1 is full.");
  prometheus::Counter& queries =
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.");
  prometheus::Counter& hits =
      counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.");
  prometheus::Counter& preemptions = counter("vllm:num_preemptions_total", "Preempted requests.");
  prometheus::Counter& prompt_tokens =
      counter("vllm:prompt_tokens_total", "Prompt tokens processed.");
  prometheus::Counter& generation_tokens =
      counter("vllm:generation_tokens_total", "Tokens generated.");
  prometheus::Histogram& iteration =
      histogram("vllm:iteration_tokens_total", "Tokens per engine step.", kIterationTokens);
  prometheus::Histogram& ttft =
      histogram("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.",
                kFirstTokenS);
  prometheus::Histogram& itl = histogram("vllm:inter_token_latency_seconds",
                                         "Between two tokens of a request.", kInterTokenS);
  prometheus::Histogram& e2e = histogram("vllm:e2e_request_latency_seconds",
                                         "From a request's arrival to its last token.", kRequestS);
  prometheus::Histogram& queue =
      histogram("vllm:request_queue_time_seconds",
                "From a request's arrival until it is scheduled.", kRequestS);
  prometheus::Histogram& inference = histogram("vllm:request_inference_time_seconds",
                                               "From scheduling to the last token.", kRequestS);
  prometheus::Histogram& prefill = histogram("vllm:request_prefill_time_seconds",
                                             "From scheduling to the first token.", kRequestS);
  prometheus::Histogram& decode =
      histogram("vllm:request_decode_time_seconds", "From the first token to the last.", kRequestS);
  prometheus::Histogram& request_prompt =
      histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", token_buckets);
  prometheus::Histogram& request_generation =
      histogram("vllm:request_generation_tokens", "Generated tokens per request.", token_buckets);
  prometheus::Histogram& request_max =
      histogram("vllm:request_params_max_tokens", "max_tokens of requests.", token_buckets);
  prometheus::Family<prometheus::Counter>& success_family =
      prometheus::BuildCounter()
          .Name("vllm:request_success_total")
          .Help("Finished requests by the reason of their end.")
          .Register(registry);
  std::array<prometheus::Counter*, kNumFinishReasons> success{};
  prometheus::Family<prometheus::Gauge>& waiting_family =
      prometheus::BuildGauge()
          .Name("vllm:num_requests_waiting_by_reason")
          .Help("Waiting requests: for room, or for another choice to compute their prompt.")
          .Register(registry);
  std::vector<prometheus::Gauge*> waiting_by_reason;  // capacity, deferred
  prometheus::Family<prometheus::Counter>& rejection_family =
      prometheus::BuildCounter()
          .Name("vllm:admission_rejections_total")
          .Help("Requests refused because the queue was full, by the limit.")
          .Register(registry);
  std::vector<prometheus::Counter*> rejections;  // by requests, by tokens
  prometheus::Family<prometheus::Counter>& http_family = prometheus::BuildCounter()
                                                             .Name("http_requests_total")
                                                             .Help("Answered HTTP requests.")
                                                             .Register(registry);
};

ServerMetrics::ServerMetrics(const MetricsOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::on_first_token(double ttft_s) { impl_->ttft.Observe(std::max(0.0, ttft_s)); }
void ServerMetrics::on_inter_token(double gap_s) { impl_->itl.Observe(std::max(0.0, gap_s)); }
void ServerMetrics::on_step(std::int32_t num_tokens, double) {
  impl_->iteration.Observe(num_tokens);
}

void ServerMetrics::on_finished(const RequestTimings& t) {
  const auto observe = [](prometheus::Histogram& histogram, double seconds) {
    histogram.Observe(std::max(0.0, seconds));
  };
  impl_->success[static_cast<std::size_t>(t.reason)]->Increment();
  observe(impl_->e2e, t.finished_s - t.arrival_s);
  impl_->request_prompt.Observe(t.prompt_tokens);
  impl_->request_generation.Observe(t.generation_tokens);
  impl_->request_max.Observe(t.max_tokens);
  if (t.scheduled_s <= 0) return;  // dropped from the queue: the rest of its times does not exist
  observe(impl_->queue, t.scheduled_s - t.arrival_s);
  observe(impl_->inference, t.finished_s - t.scheduled_s);
  if (t.first_token_s <= 0) return;
  observe(impl_->prefill, t.first_token_s - t.scheduled_s);
  observe(impl_->decode, t.finished_s - t.first_token_s);
}

void ServerMetrics::on_http_request(std::string_view handler, std::string_view method, int status) {
  impl_->http_family
      .Add({{"handler", std::string(handler)},
            {"method", std::string(method)},
            {"status", std::to_string(status / 100) + "xx"}})
      .Increment();
}

std::string ServerMetrics::text(const EngineStats& stats) {
  std::lock_guard lock(impl_->scrape_mutex);
  const KvStats& kv = stats.scheduler.kv;
  impl_->running.Set(stats.scheduler.running);
  impl_->waiting.Set(stats.scheduler.waiting);
  impl_->waiting_by_reason[0]->Set(stats.scheduler.waiting - stats.scheduler.deferred);
  impl_->waiting_by_reason[1]->Set(stats.scheduler.deferred);
  Impl::raise(*impl_->rejections[0], stats.rejected_by_requests);
  Impl::raise(*impl_->rejections[1], stats.rejected_by_tokens);
  impl_->kv_usage.Set(kv.num_blocks > 0
                          ? static_cast<double>(kv.used_blocks) / static_cast<double>(kv.num_blocks)
                          : 0);
  Impl::raise(impl_->queries, kv.query_tokens);
  Impl::raise(impl_->hits, kv.hit_tokens);
  Impl::raise(impl_->preemptions, stats.scheduler.preemptions);
  Impl::raise(impl_->prompt_tokens, stats.prompt_tokens);
  Impl::raise(impl_->generation_tokens, stats.generation_tokens);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace quire
