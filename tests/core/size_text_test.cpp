// Amounts of bytes as people read them.
#include "core/text/size_text.hpp"

#include <gtest/gtest.h>

namespace vindex {
namespace {

TEST(SizeTextTest, DataHasThreeDigitsAndNeverAnExponent) {
  EXPECT_EQ(data_text(0.0), "0 B");
  EXPECT_EQ(data_text(12300.0), "12.3 kB");
  EXPECT_EQ(data_text(999.0), "999 B");
  EXPECT_EQ(data_text(999.6), "1.00 kB");
  EXPECT_EQ(data_text(std::uint64_t{18'600'000}), "18.6 MB");
  EXPECT_EQ(data_text(5e8), "500 MB");
  EXPECT_EQ(data_text(999.7e6), "1.00 GB");
  EXPECT_EQ(data_text(1.015e12), "1.01 TB");
  for (double bytes = 1.0; bytes < 1e18; bytes *= 1.37) {
    EXPECT_LE(data_text(bytes).size(), 7U) << bytes;
    EXPECT_EQ(data_text(bytes).find('e'), std::string::npos) << bytes;
  }
}

TEST(SizeTextTest, MemoryIsInPowersOfTwo) {
  EXPECT_EQ(memory_text(16ULL << 30U), "16.0 GiB");
  EXPECT_EQ(memory_text(512), "512 B");
}

}  // namespace
}  // namespace vindex
