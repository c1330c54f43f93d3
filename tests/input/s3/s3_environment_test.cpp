// Keys, regions and endpoints of S3 as the environment and the shared file name them; files that a
// remote store's environment names and that are none.
#include "input/s3/s3_environment.hpp"

#include "input/hub/hf_store.hpp"
#include "input/hub/hub_environment.hpp"
#include "input/model_store.hpp"
#include "input/remote/remote_environment.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sys/stat.h>

namespace vindex::input::s3_environment_test {
namespace {

class S3EnvironmentTest : public ::testing::Test {
 protected:
  ~S3EnvironmentTest() override { set_remote_environment({}); }
  static void set(const std::map<std::string, std::string>& values) {
    set_remote_environment([values](const char* name) {
      const auto found = values.find(name);
      return found == values.end() ? std::string() : found->second;
    });
  }
  static std::string refusal(const std::map<std::string, std::string>& values) {
    set(values);
    return testing::error_of([] { (void)s3_environment(); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(S3EnvironmentTest, NothingIsSetByItself) {
  const S3Environment s3 = s3_environment();
  EXPECT_FALSE(s3.credentials.has_value());
  EXPECT_EQ(s3.bucket_url("bucket"), "https://bucket.s3.us-east-1.amazonaws.com/");
  EXPECT_EQ(s3.bucket_url("my.bucket"), "https://s3.us-east-1.amazonaws.com/my.bucket/");
}

TEST_F(S3EnvironmentTest, VariablesComeFirst) {
  set({{"AWS_ACCESS_KEY_ID", "ID"},
       {"AWS_SECRET_ACCESS_KEY", "secret"},
       {"AWS_SESSION_TOKEN", "token"},
       {"AWS_PROFILE", "none"},
       {"AWS_DEFAULT_REGION", "eu-west-1"},
       {"AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"}});
  S3Environment s3 = s3_environment();
  ASSERT_TRUE(s3.credentials.has_value());
  EXPECT_EQ(s3.credentials->key_id + s3.credentials->secret + s3.credentials->session_token,
            "IDsecrettoken");
  EXPECT_EQ(s3.region, "eu-west-1");
  EXPECT_EQ(s3.bucket_url("b"), "http://127.0.0.1:9000/b/");
  set({{"AWS_REGION", "a-1"},
       {"AWS_DEFAULT_REGION", "b-1"},
       {"AWS_ENDPOINT_URL", "https://x"},
       {"AWS_ENDPOINT_URL_S3", "https://y"}});
  s3 = s3_environment();
  EXPECT_EQ(s3.region + s3.endpoint, "a-1https://y");
}

TEST_F(S3EnvironmentTest, TheSharedFileHasProfiles) {
  const std::string path = folder_.file("credentials");
  std::ofstream(path) << "# keys\n[default]\naws_access_key_id=A\naws_secret_access_key = B\n"
                         "\n[ci]\r\naws_access_key_id = C\r\naws_secret_access_key = D=\r\n"
                         "aws_session_token = E\r\nregion = eu-north-1\r\n[half]\n"
                         "aws_access_key_id = F\n";
  set({{"AWS_SHARED_CREDENTIALS_FILE", path}});
  EXPECT_EQ(s3_environment().credentials->secret, "B");
  set({{"AWS_SHARED_CREDENTIALS_FILE", path}, {"AWS_PROFILE", "ci"}});
  const S3Environment ci = s3_environment();
  EXPECT_EQ(ci.credentials->secret + ci.credentials->session_token + ci.region, "D=Eeu-north-1");
  set({{"AWS_SHARED_CREDENTIALS_FILE", path}, {"AWS_NO_SIGN_REQUEST", "true"}});
  EXPECT_FALSE(s3_environment().credentials.has_value());
  for (const char* profile : {"half", "other"}) {
    EXPECT_EQ(refusal({{"AWS_SHARED_CREDENTIALS_FILE", path}, {"AWS_PROFILE", profile}}),
              "E-S3-CREDENTIALS");
  }
}

// Nobody may ever write to a pipe.
TEST_F(S3EnvironmentTest, CredentialsInAPipeAreRefusedAndNotWaitedFor) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal({{"AWS_SHARED_CREDENTIALS_FILE", pipe}}), "E-S3-CREDENTIALS");
  set({{"HF_TOKEN_PATH", pipe}});
  EXPECT_EQ(testing::error_of([] { (void)hub_environment(); }), "E-HUB-TOKEN");
}

// A reference of the cache, where the Hub may not be asked, names no commit then.
TEST_F(S3EnvironmentTest, AReferenceOfTheHubsCacheInAPipeIsNotWaitedFor) {
  const std::string references = folder_ / "models--org--repo/refs";
  std::filesystem::create_directories(references);
  ASSERT_EQ(::mkfifo((references + "/main").c_str(), 0600), 0);
  set({{"HF_HUB_CACHE", folder_.path()}, {"HF_HUB_OFFLINE", "1"}});
  EXPECT_EQ(testing::error_of([] { (void)open_hf_store("hf://org/repo", {}); }), "E-FOLDER-EMPTY");
}

TEST_F(S3EnvironmentTest, WhatCannotBeMeantIsRefused) {
  EXPECT_EQ(refusal({{"AWS_ACCESS_KEY_ID", "A"}}), "E-S3-CREDENTIALS");
  EXPECT_EQ(refusal({{"AWS_SECRET_ACCESS_KEY", "A"}}), "E-S3-CREDENTIALS");
  EXPECT_EQ(refusal({{"AWS_ACCESS_KEY_ID", "A\r\nX: y"}, {"AWS_SECRET_ACCESS_KEY", "B"}}),
            "E-S3-CREDENTIALS");
  EXPECT_EQ(refusal({{"AWS_REGION", "us.east/1"}}), "E-S3-REGION");
  EXPECT_EQ(refusal({{"AWS_ENDPOINT_URL", "ftp://x"}}), "E-S3-ENDPOINT");
}

}  // namespace
}  // namespace vindex::input::s3_environment_test
