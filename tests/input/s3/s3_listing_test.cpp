// Pages of ListObjectsV2 as services write them, and what is none.
#include "input/s3/s3_listing.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace vindex::input::s3_listing_test {
namespace {

constexpr const char* kPage =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
    "<Prefix>m/</Prefix><KeyCount>3</KeyCount><IsTruncated>true</IsTruncated>\n"
    "<Contents><Key>m/a+b%2Bc.gguf</Key><Size>1</Size><ETag>&quot;x&quot;</ETag></Contents>"
    "<Contents><Key>m/d&amp;e</Key><Owner><ID/></Owner></Contents>"
    "<CommonPrefixes><Prefix>m/sub/</Prefix></CommonPrefixes>"
    "<NextContinuationToken>1/x=</NextContinuationToken></ListBucketResult>\n";

TEST(S3ListingTest, APageByHand) {
  const S3Listing page = read_s3_listing(kPage, "s3://b/m");
  EXPECT_EQ(page.keys, (std::vector<std::string>{"m/a b+c.gguf", "m/d&e"}));
  EXPECT_EQ(page.prefixes, std::vector<std::string>{"m/sub/"});
  EXPECT_EQ(page.next, "1/x=");
}

TEST(S3ListingTest, TheLastPageHasNoNext) {
  const S3Listing page = read_s3_listing(
      "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", "s3://b");
  EXPECT_TRUE(page.keys.empty() && page.prefixes.empty() && page.next.empty());
}

TEST(S3ListingTest, EveryOtherTextIsRefused) {
  std::vector<std::string> texts = {
      "",
      "no XML",
      "<Error><Code>AccessDenied</Code></Error>",
      "<ListBucketResult></ListBucketResult><ListBucketResult></ListBucketResult>",
      "<ListBucketResult></ListBucketResult>x",
      "<ListBucketResult><Contents></ListBucketResult></Contents>",
      "<ListBucketResult><Contents></ListBucketResult>",
      "</ListBucketResult>",
      "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult></ListBucketResult>",
      "<ListBucketResult><![CDATA[x]]></ListBucketResult>",
      "<ListBucketResult><Contents><Key>&b;</Key></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Key>&amp</Key></Contents></ListBucketResult>",
      "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",  // and no next
  };
  std::string deep;
  for (int i = 0; i < 100'000; ++i) {
    deep += "<a>";
  }
  texts.push_back(deep);
  const std::string page = kPage;
  for (std::size_t end = 0; end + 1 < page.size(); ++end) {
    texts.push_back(page.substr(0, end));
  }
  for (const std::string& text : texts) {
    const std::string error = testing::error_of([&] { (void)read_s3_listing(text, "s3://b"); });
    EXPECT_EQ(error, "E-REMOTE-ANSWER") << text.substr(0, 200);
  }
}

}  // namespace
}  // namespace vindex::input::s3_listing_test
