// What the environment changes of exchanges, and whom a token is shown.
#include "input/http/http_client.hpp"

#include "input/remote/remote_environment.hpp"

#include <gtest/gtest.h>

#include <map>

namespace vindex::input::http_client_test {
namespace {

HttpSettings settings_with(const std::map<std::string, std::string>& values) {
  set_remote_environment([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  });
  HttpSettings settings = http_settings();
  set_remote_environment({});
  return settings;
}

TEST(HttpClientTest, TheEnvironmentSetsTimes) {
  const HttpSettings usual;
  const HttpSettings set = settings_with({{"HF_HUB_DOWNLOAD_TIMEOUT", "5"},
                                          {"HF_HUB_ETAG_TIMEOUT", "7"},
                                          {"SSL_CERT_FILE", "/authorities.pem"}});
  EXPECT_EQ(set.stall_seconds, 5);
  EXPECT_EQ(set.connect_seconds, 7);
  EXPECT_EQ(set.authorities, "/authorities.pem");
  for (const char* nonsense : {"", "0", "-1", "1e9", "3601", "soon", "5 s"}) {
    const HttpSettings same =
        settings_with({{"HF_HUB_DOWNLOAD_TIMEOUT", nonsense}, {"HF_HUB_ETAG_TIMEOUT", nonsense}});
    EXPECT_EQ(same.stall_seconds, usual.stall_seconds) << nonsense;
    EXPECT_EQ(same.connect_seconds, usual.connect_seconds) << nonsense;
  }
}

TEST(HttpClientTest, ATokenIsForOneOriginOverHttps) {
  const HttpCredential token = bearer_credential("https://hub:443", "secret");
  EXPECT_EQ(token("https://hub/api", {}), std::vector<std::string>{"Authorization: Bearer secret"});
  EXPECT_EQ(token("https://HUB:443/x", {}).size(), 1U);
  for (const char* other : {"http://hub/api", "https://hub:444/", "https://hub.example/",
                            "https://cdn/", "https://hub@evil/", "https://evil/https://hub:443"}) {
    EXPECT_TRUE(token(other, {}).empty()) << other;
  }
  EXPECT_FALSE(bearer_credential("http://hub:80", "secret"));
  EXPECT_FALSE(bearer_credential("https://hub:443", ""));
}

}  // namespace
}  // namespace vindex::input::http_client_test
