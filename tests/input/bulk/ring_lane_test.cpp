// A ring that fails on the way: what it took arrives, the rest is told to be read by other means.
#include "input/bulk/ring_lane.hpp"

#include "bulk_reader_fixture.hpp"
#include "troubled_ring.hpp"

#include <cstring>
#include <memory>

namespace vindex::input::ring_lane_test {
namespace {

/// Reads the whole file through a lane, what the ring does not take by hand.
class RingLaneTest : public BulkReaderTest {
 protected:
  void expect_everything(RingLane& lane, std::vector<Request> requests) {
    for (Request& request : requests) {
      if (!lane.begin(request, source_->descriptor())) {
        ++by_hand_;
        ASSERT_NE(request.job, nullptr) << "the request is as it was";
        source_->read(request.range.offset, {request.into, request.range.bytes});
        request.job->finish(nullptr);
      }
    }
  }
  int by_hand_ = 0;
};

TEST_F(RingLaneTest, WhatARingTookBeforeItFailedArrives) {
  const std::vector<ByteRange> ranges = {{source_.get(), 0, 4096},
                                         {source_.get(), 8192, 12'000'000},
                                         {source_.get(), 13'000'704, 100'000},
                                         {source_.get(), 14'000'128, 90'000}};
  const Placement placement = place_ranges(ranges, 0);
  for (int call = 0; call <= 6; ++call) {
    for (const Trouble& trouble : {Trouble{.submit = call}, Trouble{.wait = call}}) {
      AlignedBlock block(placement.bytes);
      std::vector<Request> requests;
      for (const Placement::MergedRange& piece : placement.pieces) {
        cut_extent({piece.range, block.data() + piece.at, true}, requests);
      }
      ASSERT_EQ(requests.size(), 5U);
      int ended = 0;
      const auto job = std::make_shared<Job>(
          requests.size(), [&](const std::exception_ptr& error) { ended += error ? 100 : 1; });
      for (Request& request : requests) {
        request.job = job;
      }
      by_hand_ = 0;
      {
        const auto lane = RingLane::start(
            std::make_unique<TroubledRing>(trouble), 2, [](Request request, std::int32_t result) {
              EXPECT_GE(result, static_cast<std::int32_t>(request.needed()));
              request.job->finish(nullptr);
            });
        ASSERT_NE(lane, nullptr);
        expect_everything(*lane, requests);
        if (trouble.wait == 0) {  // else it depends on when the lane waits
          const bool fails = trouble.submit > 0 && trouble.submit <= 5;
          EXPECT_EQ(by_hand_ > 0, fails) << trouble.submit;
          EXPECT_EQ(lane->error().find("Input/output error") != std::string::npos, fails);
        }
      }
      EXPECT_EQ(ended, 1) << "every request ended once";
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        EXPECT_EQ(std::memcmp(block.data() + placement.at[i], content_.data() + ranges[i].offset,
                              ranges[i].bytes),
                  0);
      }
    }
  }
}

}  // namespace
}  // namespace vindex::input::ring_lane_test
