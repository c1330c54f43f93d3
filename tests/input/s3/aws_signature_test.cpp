// Signatures against the worked examples of "Authenticating Requests: Using the Authorization
// Header (AWS Signature Version 4)" in the Amazon S3 API Reference, with its keys and its moment.
#include "input/s3/aws_signature.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::input::aws_signature_test {
namespace {

const AwsCredentials kKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr std::time_t kMoment = 1369353600;  // 2013-05-24 00:00:00 UTC

std::string authorization(const AwsCredentials& keys, const std::string& path,
                          const std::vector<std::string>& fields = {}) {
  return aws_signature(keys, "us-east-1", "https://examplebucket.s3.amazonaws.com" + path, fields,
                       kMoment)
      .back();
}

TEST(AwsSignatureTest, ARangeOfAnObject) {
  EXPECT_EQ(authorization(kKeys, "/test.txt", {"Range: bytes=0-9"}),
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(AwsSignatureTest, QueriesAreSortedAndCompleted) {
  const auto ends_with = [](const std::string& text, const std::string& signature) {
    return text.ends_with("Signature=" + signature);
  };
  EXPECT_TRUE(ends_with(authorization(kKeys, "?lifecycle"),
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_TRUE(ends_with(authorization(kKeys, "/?prefix=J&max-keys=2"),
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(AwsSignatureTest, ASessionTokenIsSentAndSigned) {
  AwsCredentials temporary = kKeys;
  temporary.session_token = "TOKEN";
  const std::vector<std::string> fields =
      aws_signature(temporary, "us-east-1", "https://h/k", {}, kMoment);
  EXPECT_EQ(std::count(fields.begin(), fields.end(), "x-amz-security-token: TOKEN"), 1);
  EXPECT_NE(fields.back().find("x-amz-date;x-amz-security-token,"), std::string::npos);
  EXPECT_NE(authorization(temporary, "/test.txt"), authorization(kKeys, "/test.txt"));
  for (const std::string& field : fields) {
    EXPECT_EQ(field.find(kKeys.secret), std::string::npos);
  }
}

}  // namespace
}  // namespace vindex::input::aws_signature_test
