// What of an address may be shown, wherever an address becomes text.
#include "core/text/secrets.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::secrets_test {
namespace {

struct Case {
  std::string given, shown;
};

const std::vector<Case> kCases = {
    {"https://host/a.gguf", "https://host/a.gguf"},
    {"https://host:8443/a@b/c.gguf", "https://host:8443/a@b/c.gguf"},
    {"https://[::1]:8443/a", "https://[::1]:8443/a"},
    {"hf://org/repo@main/a.gguf", "hf://org/repo@main/a.gguf"},
    {"s3://bucket/what?/a.gguf", "s3://bucket/what?/a.gguf"},
    {"file:///a b", "file:///a b"},
    {"a ? b # c @ d", "a ? b # c @ d"},
    {"://x?y=z", "://x?y=z"},
    {"https://user:SECRET@host/a.gguf", "https://host/a.gguf"},
    {"https://SECRET@host/a.gguf", "https://host/a.gguf"},
    {"HTTPS://user:SECRET@host/a", "HTTPS://host/a"},
    {"http://user:SE@CRET@host/a", "http://host/a"},
    {"http://user:SE/CRET@host/a", "http://host/a"},
    {"http://user:SE?C#RET@host/a", "http://host/a"},
    {"https://user:SECRET", "https://..."},
    {"s3://KEY:SECRET@bucket/a", "s3://bucket/a"},
    {"hf://SECRET@org/repo", "hf://org/repo"},
    {"ftp://user:SECRET@host/a", "ftp://host/a"},
    {"https://host/a?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET", "https://host/a"},
    {"https://host/a?SECRET", "https://host/a"},
    {"https://host/a#token=SECRET", "https://host/a"},
    {"s3://bucket/a?X-Amz-Signature=SECRET", "s3://bucket/a"},
    {"hf://org/repo?token=SECRET", "hf://org/repo"},
    {"--against=https://user:SECRET@host/a?b=SECRET", "--against=https://host/a"},
    {"https://host/a?next=https://SECRET@b/c", "https://host/a"},
    {"a https://u:SECRET@h/a?s=SECRET: is b http://v:SECRET@i/c, \"https://h/d?SECRET\".",
     "a https://h/a: is b http://i/c, \"https://h/d\"."},
    {"{\"path\":\"https://u:SECRET@h/a?s=SECRET\",\"bytes\":8}",
     "{\"path\":\"https://h/a\",\"bytes\":8}"},
};

TEST(SecretsTest, NoneIsLeftInAnAddress) {
  for (const auto& [given, shown] : kCases) {
    EXPECT_EQ(without_secrets(given), shown);
    EXPECT_EQ(without_secrets(shown), shown) << "again";
    EXPECT_EQ(printable(given), shown);
    EXPECT_EQ(excerpt(given), shown);
  }
}

TEST(SecretsTest, NoneIsLeftInAnError) {
  for (const auto& [given, shown] : kCases) {
    EXPECT_EQ(std::string(UsageError("E-A", given).what()), "E-A: " + shown);
    const RemoteError remote("E-B", given, true);
    EXPECT_EQ(remote.message(), shown);
    EXPECT_EQ(std::string(remote.what()), "E-B: " + shown);
  }
}

TEST(SecretsTest, WhatIsRefusedForItsSpacesIsOneAddress) {
  EXPECT_EQ(address_without_secrets("https://u:SEC RET@host/a"), "https://host/a");
  EXPECT_EQ(address_without_secrets("https://u:SEC\"RET@host/a?b c"), "https://host/a");
  EXPECT_EQ(address_without_secrets("https://host/a b"), "https://host/a b");
}

TEST(SecretsTest, ACutHidesNoPasswordsEnd) {
  const std::string secret(300, 'S');
  EXPECT_EQ(excerpt("https://" + secret + "@host/a"), "https://host/a");
  EXPECT_EQ(excerpt("https://user:" + secret + "@host/a"), "https://host/a");
}

}  // namespace
}  // namespace vindex::secrets_test
