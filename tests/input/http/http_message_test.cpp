// What heads of answers and addresses say.
#include "input/http/http_message.hpp"

#include <gtest/gtest.h>

namespace vindex::input::http_message_test {
namespace {

HttpHead head(int status, std::map<std::string, std::string> fields) {
  return {.status = status, .fields = std::move(fields)};
}

TEST(HttpMessageTest, ARefusalSaysHowLongToWait) {
  EXPECT_EQ(seconds_to_wait(head(429, {{"retry-after", "7"}})), 7.0);
  EXPECT_EQ(seconds_to_wait(head(503, {{"retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"}})), 0.0);
  EXPECT_EQ(seconds_to_wait(head(429, {{"ratelimit", "\"resolvers\";r=0;t=148"}})), 148.0);
  EXPECT_EQ(seconds_to_wait(head(429, {{"retry-after", "2"}, {"ratelimit", "\"a\";r=0;t=9"}})),
            2.0);
  EXPECT_EQ(seconds_to_wait(head(429, {{"retry-after", "soon"}})), std::nullopt);
  EXPECT_EQ(seconds_to_wait(head(429, {{"ratelimit", "\"a\";r=0;t=-9"}})), std::nullopt);
}

TEST(HttpMessageTest, TheLastOneOfAQuotaToo) {
  EXPECT_EQ(seconds_to_wait(head(206, {{"ratelimit", "\"api\";r=0;t=60"}})), 60.0);
  EXPECT_EQ(seconds_to_wait(head(302, {{"ratelimit", "\"api\"; r=0; t=60"}})), 60.0);
  EXPECT_EQ(seconds_to_wait(head(206, {{"ratelimit", "\"api\";r=10;t=60"}})), std::nullopt);
  EXPECT_EQ(seconds_to_wait(head(206, {{"ratelimit", "\"api\";t=60"}})), std::nullopt);
  EXPECT_EQ(seconds_to_wait(head(206, {{"retry-after", "60"}})), std::nullopt);
}

TEST(HttpMessageTest, OriginsAreCompared) {
  EXPECT_EQ(origin_of("HTTPS://Host/x?y"), "https://host:443");
  EXPECT_EQ(origin_of("http://host:8080"), "http://host:8080");
  EXPECT_EQ(origin_of("https://[::1]/x"), "https://[::1]:443");
  EXPECT_EQ(origin_of("https://user@host/"), "");
  EXPECT_EQ(origin_of("ftp://host/"), "");
}

TEST(HttpMessageTest, RedirectsLeadFromTheirBase) {
  const std::string base = "https://a.b/c/d?e=f";
  EXPECT_EQ(url_behind(base, "https://x/y"), "https://x/y");
  EXPECT_EQ(url_behind(base, "//x/y"), "https://x/y");
  EXPECT_EQ(url_behind(base, "/y?z=http://w"), "https://a.b/y?z=http://w");
  EXPECT_EQ(url_behind(base, "y"), "https://a.b/c/y");
  EXPECT_EQ(shown_url(base), "https://a.b/c/d");
}

}  // namespace
}  // namespace vindex::input::http_message_test
