#include "hub/proxy.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string proxy_of(const ProxySettings& settings, const std::string& url) {
  const Result<std::optional<Url>> proxy = proxy_for(settings, *parse_url(url));
  if (!proxy) return "error";
  return *proxy ? (*proxy)->origin() : "none";
}

TEST(Proxy, ByScheme) {
  const ProxySettings settings{"http://p:1", "q:2", ""};
  EXPECT_EQ(proxy_of(settings, "https://hub.example/x"), "http://p:1");
  EXPECT_EQ(proxy_of(settings, "http://hub.example/x"), "http://q:2");
  EXPECT_EQ(proxy_of({}, "http://hub.example/x"), "none");
}

TEST(Proxy, Exceptions) {
  const std::string p = "http://p:1";
  for (const char* list : {"*", "hub.example", "x, HUB.example", ".example", "example", "*.example",
                           "hub.example:443"})
    EXPECT_EQ(proxy_of({p, p, list}, "https://hub.example/x"), "none") << list;
  for (const char* list : {"", ",", "ub.example", "hub", "hub.example:80", "hub.example.org"})
    EXPECT_EQ(proxy_of({p, p, list}, "https://hub.example/x"), p) << list;
}

TEST(Proxy, BadOnesAreErrorsThatTellNoPassword) {
  for (const char* text : {"https://p:1", "socks5://p:1", "http://user:secret@p:1", "http://"}) {
    const Result<std::optional<Url>> proxy = proxy_for({text, "", ""}, *parse_url("https://h/"));
    ASSERT_FALSE(proxy) << text;
    EXPECT_EQ(proxy.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
