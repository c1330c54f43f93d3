// Names in addresses, and that none of them chooses the server that is asked.
#include "input/remote/address_names.hpp"

#include "input/http/http_message.hpp"
#include "input/remote/remote_environment.hpp"
#include "input/stores/open_store.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vindex::input::address_names_test {
namespace {

TEST(AddressNamesTest, HostsAndPorts) {
  for (const char* host : {"host", "HOST", "a-b.c_d.example", "127.0.0.1", "host:1", "host:65535",
                           "[::1]", "[::1]:8080", "[fe80::1.2.3.4]:1"}) {
    EXPECT_EQ(fault_of_host(host), "") << host;
  }
  for (const char* host : {"",           ":80",          "host:",
                           "host:0",     "host:65536",   "host:99999999999999999999",
                           "host:-1",    "host:+1",      "host:80x",
                           "host:80:80", "ho\\st",       "ho@st",
                           "ho%73t",     "h\xc3\xb6st",  "[::1",
                           "[]",         "[host]",       "[::1]x",
                           "[::1]:0",    "[::1%25eth0]", "ho st",
                           "ho,st"}) {
    EXPECT_NE(fault_of_host(host), "") << host;
  }
}

TEST(AddressNamesTest, PortsOfProxies) {
  for (const char* proxy : {"", "host", "host:3128", "http://host:1/", "http://u:p@host:65535",
                            "socks5h://host:9050", "http://[::1]:80", "[::1]", "u:p@host"}) {
    EXPECT_TRUE(has_good_port(proxy)) << proxy;
  }
  for (const char* proxy : {"host:0", "host:65536", "http://u:p@host:x", "http://host:/",
                            "http://[::1]:99999", "https://host:-1/a:80"}) {
    EXPECT_FALSE(has_good_port(proxy)) << proxy;
  }
}

TEST(AddressNamesTest, Buckets) {
  for (const char* bucket : {"abc", "my-bucket", "my.bucket.v1", "0-0",
                             "a23456789012345678901234567890123456789012345678901234567890123"}) {
    EXPECT_EQ(fault_of_bucket(bucket), "") << bucket;
  }
  for (const char* bucket : {"",
                             "ab",
                             "localhost:9000#",
                             "localhost?",
                             "a/b",
                             "a@b",
                             "a:b",
                             "a%2Fb",
                             "a\\b",
                             "Bucket",
                             "my_bucket",
                             "-abc",
                             "abc-",
                             ".abc",
                             "abc.",
                             "a..b",
                             "192.168.0.1",
                             "b\xc3\xbcx",
                             "a&b",
                             "a234567890123456789012345678901234567890123456789012345678901234"}) {
    EXPECT_NE(fault_of_bucket(bucket), "") << bucket;
  }
}

TEST(AddressNamesTest, Repositories) {
  for (const char* part : {"org", "Meta-Llama-3.1_8B", "_x_", "0"}) {
    EXPECT_EQ(fault_of_repository(part), "") << part;
  }
  for (const char* part : {"", "a#", "a?b=c", "a:b", "a%2Fb", "a--b", "a..b", "-a", "a-", ".a",
                           "a.", "a\\b", "\xc3\xa4", "a b"}) {
    EXPECT_NE(fault_of_repository(part), "") << part;
  }
  EXPECT_NE(fault_of_repository(std::string(97, 'a')), "");
}

/// Refused while it is opened: no store is made that could ask anybody.
TEST(AddressNamesTest, MalformedAddressesAreRefusedBeforeAnyRequest) {
  for (const char* address : {"s3://localhost:9000#/a",
                              "s3://localhost:9000?/a",
                              "s3://localhost:9000?x=y/a.gguf",
                              "s3://user:word@localhost/a",
                              "s3://a#/b",
                              "s3://UPPER/a",
                              "s3://127.0.0.1/a",
                              "hf://org#x/repo",
                              "hf://org/repo#x",
                              "hf://org/repo?x=y",
                              "hf://localhost:80/repo",
                              "hf://word@org/repo",
                              "https://host:0/a",
                              "https://host:65536/a",
                              "http://host:99999/a",
                              "http://host:8o80/a",
                              "https://ho\\st/a",
                              "https://host/a\\b",
                              "https://host/a\"b",
                              "https://host/\xff",
                              "https://[::1/a",
                              "https://user:word@host/a",
                              "https://:80/a"}) {
    EXPECT_EQ(testing::outcome_of([&] { open_store(address); }), "E-REMOTE-ADDRESS 64") << address;
  }
}

TEST(AddressNamesTest, ARefusalRepeatsNoSecret) {
  for (const char* address :
       {"https://user:SECRET@host/a", "https://user:SEC RET@host/a", "https://user:SEC/RET@host/a",
        "https://host/a b?X-Amz-Signature=SECRET", "s3://KEY:SECRET@bucket/a",
        "hf://user:SECRET@org/repo", "hf://org/repo?token=SECRET", "gs://user:SECRET@host/a",
        "file://user:SECRET@host/a", "https://user:SECRET@host:99999/a"}) {
    const std::string message = testing::message_of([&] { open_store(address); });
    EXPECT_EQ(message.find("SEC"), std::string::npos) << message;
    EXPECT_EQ(message.find("RET"), std::string::npos) << message;
  }
}

TEST(AddressNamesTest, EndpointsOfTheEnvironmentToo) {
  for (const char* endpoint :
       {"https://user:SECRET@host", "user:SECRET@host", "https://host:99999", "https://host:0",
        "https://host/?SECRET", "https://host#SECRET", "ftp://host", "https://"}) {
    set_remote_environment([&](const char* name) {
      const std::string_view asked = name;
      return std::string(asked == "HF_ENDPOINT" || asked == "AWS_ENDPOINT_URL" ? endpoint : "");
    });
    for (const char* address : {"hf://org/repo", "s3://bucket/a"}) {
      const auto open = [&] { open_store(address); };
      EXPECT_EQ(testing::exit_code_of(open), ExitCode::kBadConfiguration) << endpoint;
      EXPECT_EQ(testing::message_of(open).find("SECRET"), std::string::npos) << endpoint;
    }
  }
  set_remote_environment({});
}

TEST(AddressNamesTest, RedirectsHaveNoOriginWithoutAHost) {
  for (const char* url : {"https://host:0/", "https://host:65536/", "https://ho\\st/", "https:///a",
                          "https://a@b/"}) {
    EXPECT_EQ(origin_of(url), "") << url;
  }
}

}  // namespace
}  // namespace vindex::input::address_names_test
