// Where models come from and where they are kept: the variables of huggingface_hub, and the flags
// that win over them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "hub/proxy.h"

namespace quire {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // without a slash at the end
  std::string cache_dir;                            // holds models--ORG--NAME folders
  std::string token;                                // empty: anonymous
  std::string revision = "main";                    // branch, tag or commit
  std::string ca_file;                              // empty: the system's certificates
  ProxySettings proxy;
  bool is_offline = false;  // never talk to the hub
  bool show_progress = true;
  double timeout_s = 30;  // without a byte from the hub
};

// Flags of the command line; empty: not given.
struct HubFlags {
  std::string revision;
  std::string download_dir;
  std::string token;
};

// get: a variable of the environment (nullopt: unset), so that tests bring their own.
using GetVariable = std::function<std::optional<std::string>(const char*)>;
Result<HubSettings> read_hub_settings(const HubFlags& flags, const GetVariable& get);
Result<HubSettings> read_hub_settings(const HubFlags& flags);  // from this process's environment

}  // namespace quire
