// gpu_probe's groups that a device is lent for, on the emulation: every stage of a spectrum and the
// libraries' own singular values come to their end, on shapes that are small but not square, and
// what is asked for is what is run.
#include "bench/gpu_probe/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::test::gpu_probe_test {
namespace {

struct Found {
  std::vector<throughput::Row> rows;
  std::vector<std::string> routes() const {
    std::vector<std::string> all;
    for (const throughput::Row& row : rows) {
      if (row.route.find(':') == std::string::npos) {
        all.push_back(row.route);
      }
    }
    return all;
  }
};

Found run(void (*group)(probe::Probe&), const std::function<void(probe::Probe&)>& choose) {
  Found found;
  probe::Probe probe(0, 600.0, 1, [&](const throughput::Row& row) { found.rows.push_back(row); });
  choose(probe);
  group(probe);
  return found;
}

void expect_measured(const Found& found) {
  for (const throughput::Row& row : found.rows) {
    EXPECT_FALSE(row.samples.empty()) << row.route << ": " << row.note;
    EXPECT_EQ(row.note.find("WRONG"), std::string::npos) << row.route << ": " << row.note;
    EXPECT_EQ(row.note.find("with a status"), std::string::npos) << row.route << ": " << row.note;
  }
}

TEST(GpuProbe, EveryStageIsTimedByItsKernels) {
  const Found found = run(probe::probe_stages, [](probe::Probe& probe) {
    probe.stages.rows = 160;
    probe.stages.cols = 96;
    probe.stages.batch = 2;
    probe.stages.sweeps = {7, 14, 9};
  });
  expect_measured(found);
  EXPECT_EQ(found.routes(),
            (std::vector<std::string>{"gram by mma.sync",
                                      "gram by mma.sync, native operands",
                                      "band on tensor cores",
                                      "band with deferred updates",
                                      "chase in float64, 7 sweeps",
                                      "chase in float32, 7 sweeps",
                                      "chase in float32, 9 sweeps",
                                      "chase in float32, 14 sweeps",
                                      "values",
                                      "values in float32",
                                      "chase by flags in float64",
                                      "one chase in float64",
                                      "one chase by flags in float64",
                                      "chase by flags in float32",
                                      "one chase in float32",
                                      "one chase by flags in float32",
                                      "back-transformation of order 192, 8 columns at a time",
                                      "back-transformation of order 192, 32 columns at a time",
                                      "float64 gram by cuBLAS",
                                      "float64 gram of codes by mma.sync, exact",
                                      "float64 gram of codes by mma.sync, rounded",
                                      "float64 band",
                                      "float64 chase",
                                      "float64 chase by flags",
                                      "float64 values",
                                      "band without tensor cores",
                                      "gram by wgmma",
                                      "gram by wgmma, native operands",
                                      "float64 gram of codes by wgmma, exact",
                                      "float64 gram of codes by wgmma, rounded",
                                      "gram by wgmma in clusters, native operands"}));
  // Each has rows of its kernels behind its own.
  EXPECT_GT(found.rows.size(), 2 * found.routes().size());
}

TEST(GpuProbe, WhatIsAskedForIsAllThatIsTimed) {
  const Found found = run(probe::probe_stages, [](probe::Probe& probe) {
    probe.stages.rows = 64;
    probe.stages.cols = 96;
    probe.stages.batch = 1;
    probe.stages.only = {"chase32", "values"};
    probe.stages.sweeps = {14};
  });
  expect_measured(found);
  EXPECT_EQ(found.routes(),
            (std::vector<std::string>{"chase in float32, 14 sweeps", "values", "values in float32",
                                      "chase by flags in float32", "one chase in float32",
                                      "one chase by flags in float32"}));
  EXPECT_EQ(found.rows.front().batch, 1);
  EXPECT_EQ(found.rows.front().rows, 64);
}

TEST(GpuProbe, LibrariesGiveTheSingularValuesOfTallAndWideMatrices) {
  for (const auto group : {probe::probe_values, probe::probe_svd}) {
    const Found found = run(group, [](probe::Probe& probe) {
      probe.libraries.cases = {{160, 96, 3}, {48, 112, 2}, {64, 64, 1}};
    });
    ASSERT_EQ(found.rows.size(), 3U);
    expect_measured(found);
    EXPECT_EQ(found.rows.front().unit, "ms_per_matrix");
    EXPECT_EQ(found.rows.front().peer.rfind("cusolver.", 0), 0U);
  }
}

}  // namespace
}  // namespace vindex::test::gpu_probe_test
