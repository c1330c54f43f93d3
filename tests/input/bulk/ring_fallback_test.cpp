// The whole reader over a ring that fails on the way. A program of its own: it has another
// IoRing::open() than the library, whose file the linker then leaves out.
#include "bulk_reader_fixture.hpp"
#include "troubled_ring.hpp"

#include <memory>
#include <string>

namespace vindex::input {

namespace {
Trouble next_trouble;
int opened = 0;
}  // namespace

std::unique_ptr<IoRing> IoRing::open(std::uint32_t /*depth*/, std::string& /*why*/) {
  ++opened;
  return std::make_unique<TroubledRing>(next_trouble);
}

namespace {

class RingFallbackTest : public BulkReaderTest {
 protected:
  void SetUp() override {
    BulkReader asking({.path = ReadPath::kDirect, .io_uring = false});
    asking.prepare(*source_);
    if (!asking.statistics().refused.empty()) {
      GTEST_SKIP() << "this file system refuses direct reads: no ring is used";
    }
    opened = 0;
  }
};

TEST_F(RingFallbackTest, ARingThatWorksIsUsed) {
  next_trouble = {};
  BulkReader reader({.path = ReadPath::kDirect, .depth = 2});
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(read_and_compare(reader, some_ranges(*source_), content_), nullptr);
  EXPECT_EQ(reader.engine(), "io_uring, 2 requests in flight");
}

TEST_F(RingFallbackTest, ThreadsReadWhatAFailedRingDoesNot) {
  for (int call = 1; call <= 4; ++call) {
    for (const Trouble& trouble : {Trouble{.submit = call}, Trouble{.wait = call}}) {
      next_trouble = trouble;
      BulkReader reader({.path = ReadPath::kDirect, .depth = 2});
      for (int round = 0; round < 2; ++round) {  // also what is asked for after the failure
        EXPECT_EQ(read_and_compare(reader, some_ranges(*source_), content_), nullptr);
      }
      EXPECT_NE(reader.engine().find(", given up for threads: "), std::string::npos) << call;
      EXPECT_NE(reader.engine().find("Input/output error"), std::string::npos) << call;
      EXPECT_EQ(reader.engine(), reader.engine()) << "said once";
      EXPECT_GT(reader.statistics().direct_bytes, 11'000'000U) << "threads read directly too";
    }
  }
}

TEST_F(RingFallbackTest, WhatIsWrongWithTheFileIsStillSaid) {
  next_trouble = {.submit = 2};
  BulkReader reader({.path = ReadPath::kDirect, .depth = 2});
  ASSERT_EQ(::truncate(path_.c_str(), 1U << 20U), 0);
  expect_throws<FormatError>(read_and_compare(reader, some_ranges(*source_), content_),
                             "E-TRUNCATED", ExitCode::kMalformedInput);
}

}  // namespace
}  // namespace vindex::input
