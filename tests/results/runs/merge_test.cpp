// What a merge refuses, by name, and what it takes knowingly: parts that are missing, damaged, of
// another run or there twice; and the records that say which parts belong to a share.
#include "results/runs/merge.hpp"

#include "results/parts/share_record.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/run_status.hpp"
#include "tests/results/hdf5/robustness_fixture.hpp"
#include "tests/results/sample_run.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace vindex::results::testing::merge_test {
namespace {

using vindex::testing::message_of;

/// Rows 0-6 of the sample are share 0, 7-13 share 1.
WorkerShare half(std::int32_t index) {
  WorkerShare share{.index = index, .count = 2};
  for (int row = 0; row < 14; ++row) {
    share.owners.push_back(row / 7);
  }
  return share;
}

class Merge : public ::testing::Test {
 protected:
  /// Worker `index` measures its share in two parts; `last`: rows up to there.
  void work(std::int32_t index, std::int64_t last = 7) {
    const auto store = open_run_store(out_, run_, half(index), false);
    const std::int64_t first = 7 * index;
    measure_rows(*store, run_, first, first + std::min<std::int64_t>(3, last));
    store->publish_part();
    measure_rows(*store, run_, first + 3, first + last);
    store->publish_file();
  }
  std::vector<std::string> parts() const {
    std::vector<std::string> found;
    for (const std::string& name : files_in(parts_)) {
      if (name.starts_with("part-")) {
        found.push_back(parts_ + "/" + name);
      }
    }
    return found;
  }
  /// The message of a refused merge, after which nothing is written.
  std::string refused() {
    const std::vector<std::string> before = files_in(folder_.path());
    const std::string message = message_of([&] { merge_parts({parts_}, out_); });
    EXPECT_EQ(files_in(folder_.path()), before);
    return message;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static std::string name_of(const std::string& path) { return fs::path(path).filename(); }

  TestFolder folder_;
  const std::string out_ = folder_ / "out.h5";
  const std::string parts_ = out_ + ".parts";
  const RunDescription run_ = sample_run();
};

TEST_F(Merge, RecordsNameThePartsOfTheirShare) {
  work(0);
  work(1);
  ASSERT_EQ(parts().size(), 4U);
  std::vector<std::string> named;
  for (const char* const tag : {"0of2", "1of2"}) {
    const auto record = read_record(parts_, tag);
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->parts.size(), 2U);
    for (const std::string& part : record->parts) {
      named.push_back(parts_ + "/" + part);
    }
  }
  EXPECT_EQ(named, parts());
  const MergeOutcome merged = merge_parts({parts_}, out_);
  EXPECT_EQ(merged.rows, 14);
  EXPECT_EQ(merged.missing + merged.same_twice + merged.passed_over, 0);
  EXPECT_FALSE(fs::exists(parts_));
}

TEST_F(Merge, ALostPartIsMissedByItsName) {
  work(0);
  work(1);
  for (const std::string& part : parts()) {
    const std::string bytes = read_file(part);
    fs::remove(part);
    const std::string message = refused();
    EXPECT_TRUE(has(message, "E-PART-MISSING") && has(message, name_of(part))) << message;
    write_file(part, bytes);
  }
  merge_parts({parts_}, out_);
}

TEST_F(Merge, WorkersThatHaveNotFinishedAreNamed) {
  work(0);
  const std::string begun = refused();
  EXPECT_TRUE(has(begun, "E-PART-MISSING") && has(begun, "worker 1 of 2 has not begun")) << begun;
  EXPECT_TRUE(has(begun, "7 of 14 matrices")) << begun;
  work(1, 5);
  const std::string unfinished = refused();
  EXPECT_TRUE(has(unfinished, "worker 1 of 2 has not finished")) << unfinished;
  EXPECT_TRUE(has(unfinished, run_.matrices[12].tensor)) << unfinished;
  const MergeOutcome partial = merge_parts({parts_}, out_, true);
  EXPECT_EQ(partial.missing, 2);
  EXPECT_EQ(read_status(out_).state, "partial");
  EXPECT_EQ(validate_file(out_), std::vector<std::string>{});
  work(1);  // goes on from there
  EXPECT_EQ(merge_parts({parts_}, out_).missing, 0);
  EXPECT_EQ(read_status(out_).state, "complete");
}

TEST_F(Merge, ADamagedPartAndOneOfAnotherRunAreRefusedByName) {
  work(0);
  work(1);
  const std::string part = parts()[2];
  const std::string bytes = read_file(part);
  std::string damaged = bytes;
  damaged[damaged.size() / 2] ^= 1;
  write_file(part, damaged);
  std::string message = refused();
  EXPECT_TRUE(has(message, "E-PART-DIGEST") && has(message, name_of(part))) << message;
  write_file(part, bytes);
  RunDescription other = run_;
  other.fingerprint.emplace_back("revision", "0123456789012345678901234567890123456789");
  {
    const auto store = open_run_store(folder_ / "other.h5", other, half(0), false);
    measure_rows(*store, other, 0, 2);
    store->publish_part();
    for (const auto& entry : fs::directory_iterator(folder_ / "other.h5.parts")) {
      if (entry.path().filename().string().starts_with("part-")) {
        fs::copy(entry.path(), parts_);
      }
    }
  }
  message = refused();
  EXPECT_TRUE(has(message, "E-RESUME-FINGERPRINT") && has(message, "part-0of2-000000-") &&
              has(message, "revision was '0123456789012345678901234567890123456789'"))
      << message;
}

/// Row 3 again, by a machine whose rounding differs, as a part of its own.
void measure_again(const std::string& out, const RunDescription& run, double factor) {
  const std::string aside = out + ".aside";
  {
    const auto store = open_run_store(aside, run, {.index = 1, .count = 2}, false);
    ResultRow row = sample_row(run, 3);
    row.sigma[0] *= factor;
    store->add(std::move(row));
    store->publish_part();
    for (const auto& entry : fs::directory_iterator(aside + ".parts")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("part-")) {
        fs::copy(entry.path(), out + ".parts/part-twice" + name.substr(4));
      }
    }
  }
  fs::remove_all(aside + ".parts");
}

TEST_F(Merge, TheSameBitsTwiceAreTakenOnce) {
  work(0);
  work(1);
  for (const char* const tag : {"0of2", "1of2"}) {
    fs::remove(parts_ + "/" + tag + ".done");  // as an earlier version left it
  }
  measure_again(out_, run_, 1.0);
  EXPECT_EQ(merge_parts({parts_}, out_).same_twice, 1);
}

TEST_F(Merge, OtherBitsOfARowAreRefusedNamingBothParts) {
  work(0);
  work(1);
  for (const char* const tag : {"0of2", "1of2"}) {
    fs::remove(parts_ + "/" + tag + ".done");
  }
  measure_again(out_, run_, 1.0 + 1e-15);
  const std::string message = refused();
  EXPECT_TRUE(has(message, "E-PART-DOUBLED") && has(message, "part-twice-") &&
              has(message, "part-0of2-000001-") && has(message, run_.matrices[3].tensor))
      << message;
}

TEST_F(Merge, WhatARecordNamesCountsWhereAShareWasMeasuredTwice) {
  work(0);
  work(1);
  measure_again(out_, run_, 1.0 + 1e-15);
  const MergeOutcome merged = merge_parts({parts_}, out_);
  EXPECT_EQ(merged.passed_over, 1);
  ResultsReader reader(out_);
  const std::vector<StoredRow> rows = reader.rows(0);
  std::vector<double> sigma(static_cast<std::size_t>(rows[3].sigma_count));
  reader.spectra().read_sigma(rows[3].bulk.row, sigma);
  EXPECT_EQ(sigma, sample_row(run_, 3).sigma);
}

/// Parts by the rule of earlier versions, every second row, without records: merged, and resumed by
/// workers with shares of this one.
TEST_F(Merge, PartsOfEarlierVersionsAreMergedAndResumed) {
  const auto every_second = [&](std::int32_t worker, std::int64_t last) {
    const auto store = open_run_store(out_, run_, {.index = worker, .count = 2}, false);
    for (std::int64_t row = worker; row < last; row += 2) {
      store->add(sample_row(run_, row));
    }
    store->publish_file();
  };
  every_second(0, 14);
  every_second(1, 8);
  const std::string message = refused();
  EXPECT_TRUE(has(message, "3 of 14 matrices")) << message;
  for (const std::int32_t worker : {0, 1}) {
    const auto store = open_run_store(out_, run_, half(worker), false);
    for (std::int64_t row = 0; row < 14; ++row) {
      if (!store->done()[static_cast<std::size_t>(row)] && row / 7 == worker) {
        store->add(sample_row(run_, row));
      }
    }
    store->publish_file();
  }
  EXPECT_EQ(merge_parts({parts_}, out_).missing, 0);
  EXPECT_EQ(validate_file(out_), std::vector<std::string>{});
}

TEST(ShareRecord, TextKeepsEverythingAndHalfATextIsNone) {
  const ShareRecord record{.division = "0123456789abcdef",
                           .owner = "host 12 345",
                           .parts = {"part-0of2-000000-a.h5", "part-0of2-000001-b.h5"}};
  const std::string text = record_text(record);
  EXPECT_EQ(parse_record(text), record);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(parse_record(text.substr(0, length)), std::nullopt) << length;
  }
  EXPECT_EQ(parse_record("later words\n" + text), record);
  for (const std::string part : {"../part-x.h5", "part-/x.h5", "x.h5", "", "part-\x1b[2J.h5"}) {
    EXPECT_EQ(parse_record("division a\npart " + part + "\nend\n"), std::nullopt) << part;
  }
}

TEST(ShareRecord, ADivisionIsItsRowsAndOwners) {
  const std::string digest = division_digest({"a", "b"}, {0, 1});
  EXPECT_EQ(division_digest({"a", "b"}, {0, 1}), digest);
  EXPECT_NE(division_digest({"a", "b"}, {0, 0}), digest);
  EXPECT_NE(division_digest({"a", "c"}, {0, 1}), digest);
}

}  // namespace
}  // namespace vindex::results::testing::merge_test
