#include "remote_address.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace vindex::shard::remote_address_test {
namespace {

std::string id_of(const std::string& address) {
  const std::string error = testing::error_of([&] { refuse_remote_address(address); });
  return error.substr(0, error.find(' '));
}

TEST(RemoteAddressTest, LocalPathsPass) {
  for (const char* path : {"model", "/data/model", "./a:b", "hf:/x", "://x", "a b://c", "", "..",
                           "hf/org/repo@main"}) {
    EXPECT_EQ(id_of(path), "none") << path;
  }
}

TEST(RemoteAddressTest, WellFormedOnesAreNotReadYet) {
  for (const char* address :
       {"hf://org/repo", "hf://org/repo@main", "hf://org/repo.v1@refs-pr-1", "https://host/a",
        "https://host/a/b@c?d=1", "s3://bucket/key", "s3://bucket/a/b/c.gguf"}) {
    EXPECT_EQ(id_of(address), "E-REMOTE") << address;
  }
}

TEST(RemoteAddressTest, MalformedOnesAreSaidToBe) {
  using namespace std::string_literals;
  for (const std::string& address :
       {"hf://"s,           "hf://org"s,          "hf://org/"s,         "hf:///repo"s,
        "hf://org/repo@"s,  "hf://org/@main"s,    "hf://org/repo@a@b"s, "hf://org/repo/more"s,
        "hf://../repo"s,    "hf://org/.."s,       "hf://org/re po"s,    "hf://org/re\npo"s,
        "hf://org/re\0po"s, "https://"s,          "https://host"s,      "https://host/"s,
        "https://host//a"s, "https://host/../a"s, "s3://bucket"s,       "s3://bucket/"s,
        "s3:///key"s,       "s3://b/\x7f"s,       "http://host/a"s,     "gs://bucket/key"s,
        "file:///a"s,       "HF://org/repo"s}) {
    EXPECT_EQ(id_of(address), "E-REMOTE-ADDRESS") << address;
  }
}

}  // namespace
}  // namespace vindex::shard::remote_address_test
