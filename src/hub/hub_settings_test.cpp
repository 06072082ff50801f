#include "hub/hub_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "hub/test_folder.h"

namespace quire {
namespace {

Result<HubSettings> settings_of(const std::map<std::string, std::string>& variables,
                                const HubFlags& flags = {}) {
  return read_hub_settings(flags, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(HubSettings, Defaults) {
  const HubSettings settings = *settings_of({{"HOME", "/h"}});
  EXPECT_EQ(settings.cache_dir, "/h/.cache/huggingface/hub");
  EXPECT_EQ(settings.revision, "main");
  EXPECT_EQ(settings.token, "");
  EXPECT_FALSE(settings.is_offline);
}

TEST(HubSettings, OrderOfTheCacheFolders) {
  std::map<std::string, std::string> variables = {{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}};
  EXPECT_EQ(settings_of(variables)->cache_dir, "/x/huggingface/hub");
  variables.emplace("HF_HOME", "~/hf");
  EXPECT_EQ(settings_of(variables)->cache_dir, "/h/hf/hub");
  variables.emplace("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(settings_of(variables)->cache_dir, "/old");
  variables.emplace("HF_HUB_CACHE", "/c");
  EXPECT_EQ(settings_of(variables)->cache_dir, "/c");
  EXPECT_EQ(settings_of(variables, {.revision = "", .download_dir = "/d", .token = ""})->cache_dir,
            "/d");
}

TEST(HubSettings, OrderOfTheTokens) {
  const TestFolder home;
  home.write("token", " from-file\n");
  std::map<std::string, std::string> variables = {{"HF_HOME", home.path()}};
  EXPECT_EQ(settings_of(variables)->token, "from-file");
  variables.emplace("HF_TOKEN_PATH", home.write("other", "other-file"));
  EXPECT_EQ(settings_of(variables)->token, "other-file");
  variables.emplace("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(settings_of(variables)->token, "");
  variables.emplace("HF_TOKEN", "from-variable");
  EXPECT_EQ(settings_of(variables)->token, "from-variable");
  EXPECT_EQ(
      settings_of(variables, {.revision = "", .download_dir = "", .token = "from-flag"})->token,
      "from-flag");
}

TEST(HubSettings, ATokenWithALineFeedInsideIsRefusedUnseen) {
  const Result<HubSettings> settings = settings_of({{"HF_TOKEN", "secret\r\nX: y"}});
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().message.find("secret"), std::string::npos);
}

TEST(HubSettings, EndpointOfflineRevisionTimeout) {
  EXPECT_EQ(settings_of({{"HF_ENDPOINT", "http://mirror:8/p/"}})->endpoint, "http://mirror:8/p");
  EXPECT_FALSE(settings_of({{"HF_ENDPOINT", "mirror"}}));
  for (const char* yes : {"1", "true", "YES", "on"})
    EXPECT_TRUE(settings_of({{"HF_HUB_OFFLINE", yes}})->is_offline) << yes;
  for (const char* no : {"", "0", "false"})
    EXPECT_FALSE(settings_of({{"HF_HUB_OFFLINE", no}})->is_offline) << no;
  EXPECT_FALSE(settings_of({}, {.revision = "../x", .download_dir = "", .token = ""}));
  const ProxySettings proxy = settings_of({{"HTTPS_PROXY", "p:1"}, {"no_proxy", "x"}})->proxy;
  EXPECT_EQ(proxy.https, "p:1");
  EXPECT_EQ(proxy.http, "");
  EXPECT_EQ(proxy.excepted, "x");
  EXPECT_EQ(settings_of({{"HF_HUB_DOWNLOAD_TIMEOUT", "2.5"}})->timeout_s, 2.5);
  for (const char* bad : {"x", "-1", "0", "nan"})
    EXPECT_FALSE(settings_of({{"HF_HUB_DOWNLOAD_TIMEOUT", bad}})) << bad;
}

}  // namespace
}  // namespace quire
