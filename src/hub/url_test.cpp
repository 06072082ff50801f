#include "hub/url.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Url, Parts) {
  const Result<Url> url = parse_url("https://Hub.Example/a/b?c=d#e");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->is_tls);
  EXPECT_EQ(url->host, "hub.example");
  EXPECT_EQ(url->port, "443");
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(url->authority(), "hub.example");
  EXPECT_EQ(parse_url("http://h:8080")->authority(), "h:8080");
  EXPECT_EQ(parse_url("http://h:8080")->target, "/");
  EXPECT_EQ(parse_url("http://h?x=1")->target, "/?x=1");
  EXPECT_EQ(parse_url("http://[::1]:9/x")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:9/x")->authority(), "[::1]:9");
}

TEST(Url, BadOnesAreRefused) {
  for (const char* text :
       {"", "hub.example", "ftp://x", "http://", "http:///x", "http://h:port/", "http://user@h/",
        "http://h/a b", "http://h/a\r\nX: y", "http://[::1", "http://h:123456/"})
    EXPECT_FALSE(parse_url(text)) << text;
}

TEST(Url, Locations) {
  const Url base = *parse_url("https://hub.example/org/name?x=1");
  const auto target = [&](const char* location) {
    return resolve_location(base, location)->origin() + resolve_location(base, location)->target;
  };
  EXPECT_EQ(target("/api/x"), "https://hub.example:443/api/x");
  EXPECT_EQ(target("other"), "https://hub.example:443/org/other");
  EXPECT_EQ(target("http://store:81/y?u=http://z"), "http://store:81/y?u=http://z");
  EXPECT_EQ(target("//cdn/x"), "https://cdn:443/x");
  EXPECT_EQ(target("/x?u=http://z"), "https://hub.example:443/x?u=http://z");
  EXPECT_FALSE(resolve_location(base, ""));
  EXPECT_FALSE(resolve_location(base, "/a\r\nb"));
}

TEST(Url, PercentEncoding) {
  EXPECT_EQ(percent_encode("sub/a b%.gguf", true), "sub/a%20b%25.gguf");
  EXPECT_EQ(percent_encode("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encode("\xc3\xa4?#", true), "%C3%A4%3F%23");
}

}  // namespace
}  // namespace quire
