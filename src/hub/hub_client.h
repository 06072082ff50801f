// The hub's protocol: the listing of a revision, what a file is, and its bytes. Redirects are
// followed; the token goes to the hub's own address only, never to the store that a redirect names.
// An object belongs to one thread.
#pragma once

#include <stop_token>
#include <string>

#include "base/result.h"
#include "hub/http_client.h"
#include "hub/hub_settings.h"
#include "hub/repo_listing.h"

namespace quire {

inline constexpr int kAttempts = 5;

class HubClient {
 public:
  HubClient(const HubSettings& settings, std::string repo, std::stop_token stop = {});

  // kUnavailable: the hub could not be reached (or is out of order); any other code: it refused.
  Result<RepoListing> list(int attempts);
  // Size and blob name, where the listing did not tell them.
  Status fill_in(RepoFile& file, const std::string& commit);
  // One attempt to get the bytes [first, end) of a file of `size` bytes; a sink that gets 200 gets
  // all of them.
  Result<HttpReply> get(const RepoFile& file, const std::string& commit, std::int64_t first,
                        std::int64_t end, const BodySink& sink);
  // What an answer that is not a success means; file: empty for the repository as a whole.
  Error error_of(const HttpReply& reply, const std::string& file) const;

 private:
  Result<HttpReply> follow(const std::string& method, Url url, HttpClient::Headers headers,
                           const BodySink* sink, bool leaves_hub);
  Result<Url> file_url(const std::string& path, const std::string& commit) const;

  HubSettings settings_;
  std::string repo_;
  std::stop_token stop_;
  HttpClient hub_, store_;  // kept connections: to the hub, and to where it redirects
};

}  // namespace quire
