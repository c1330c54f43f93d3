// Reading for `show` of files as they may be found: unfinished, just ending, mixed with parts of
// another run, hostile, or none of ours.
#include "spectra_view_fixture.hpp"

#include "results/parts/parts_folder.hpp"
#include "results/runs/run_status.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

namespace vindex::results::testing::spectra_view_files_test {
namespace {

TEST_F(SpectraViewFile, PartialFilesAndPartsAlone) {
  {
    const auto store = open_run_store(file_, run_, {}, false);
    measure_rows(*store, run_, 0, 4);
    store->publish_part();
  }
  report::SpectraView shown = show("gini");
  EXPECT_EQ(shown.state, "running");
  EXPECT_EQ(shown.rows_measured, 4);
  EXPECT_EQ(shown.matrices.size(), 22U);
  EXPECT_EQ(shown.matrices[3].numbers.value,
            sample_numbers(run_, 3).values[statistics::Metric::kGini]);
  EXPECT_TRUE(std::isnan(shown.matrices[4].numbers.value));
  {
    const auto store = open_run_store(file_, run_, {}, false);
    store->publish_file();
    measure_rows(*store, run_, 4, 7);
    store->publish_part();
  }
  shown = show("gini");
  EXPECT_EQ(shown.state, "partial");
  EXPECT_EQ(shown.rows_measured, 7);
  for (const std::size_t i : {std::size_t{3}, std::size_t{6}}) {  // of the file and of a part
    EXPECT_EQ(shown.matrices[i].numbers.value,
              sample_numbers(run_, static_cast<std::int64_t>(i)).values[statistics::Metric::kGini]);
  }
  EXPECT_TRUE(says(report::spectra_headline(shown), ": partial, 7 of 22 matrices measured"));
  const std::string parts = file_ + ".parts";
  for (const auto& entry : std::filesystem::directory_iterator(parts)) {
    if (entry.path().extension() == ".h5") {
      EXPECT_TRUE(
          says(error_of([&] { report::read_spectra_view(entry.path(), {}); }), "E-RESULTS-PART: "));
    }
  }
}

// A results file may come from anywhere; what it holds must not drive the terminal.
TEST_F(SpectraViewFile, TextsOfAFileArePrintable) {
  write_sample(file_, run_);
  const auto is_clean = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return c == '\n' || (c >= 0x20 && c != 0x7F && c < 0x80);
    });
  };
  add_column("/matrix/gini_\x1b]0;title\x07", 0.0, 1.0);
  set_texts("/matrix/role", "do\x1b[2Jwn\xff");
  set_texts("/matrix/tensor", "blk\x1b]0;title\x07\nforged line\xfe");
  set_texts("/matrix/reason", "bad\xff\x1b[31m\nforged line");
  EXPECT_TRUE(is_clean(refusal("gino"))) << refusal("gino");
  EXPECT_TRUE(is_clean(refusal("", {}, {}, "gino")));
  const std::string role = refusal("", {}, selection("", "", "dwn"));
  EXPECT_TRUE(says(role, "E-SELECTION")) << role;
  EXPECT_TRUE(is_clean(role)) << role;
  EXPECT_TRUE(is_clean(report::groups_text(show(""), 80)));
  EXPECT_TRUE(is_clean(report::top_text(show(""), 3, false, 80)));
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, "/matrix/status", H5P_DEFAULT);
  const hid_t type = H5Dget_type(data);
  const std::vector<std::int8_t> codes(run_.matrices.size(),
                                       static_cast<std::int8_t>(MatrixStatus::kFailed));
  EXPECT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, codes.data()), 0);
  H5Tclose(type);
  H5Dclose(data);
  EXPECT_GE(H5Fclose(file), 0);
  const RunStatus status = read_status(file_);
  ASSERT_FALSE(status.failed_rows.empty());
  for (const FailedRow& row : status.failed_rows) {
    EXPECT_TRUE(is_clean(row.tensor)) << row.tensor;
    EXPECT_TRUE(is_clean(row.reason) && !says(row.reason, "\n")) << row.reason;
  }
}

TEST_F(SpectraViewFile, PartsOfAnotherRunAreNotMixedIn) {
  const RunDescription fast = sample_run({.experts = 5, .rows = 300, .cols = 260, .mode = "fast"});
  {
    const auto store = open_run_store(file_, fast, {}, false);
    measure_rows(*store, fast, 0, 4);
    store->publish_part();
  }
  ASSERT_TRUE(std::filesystem::exists(file_ + ".parts"));
  write_sample((folder_ / "other.h5"), run_);
  std::filesystem::rename(folder_ / "other.h5", file_);
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { report::read_spectra_view(file_, {}); }, [&] { (void)read_status(file_); }}) {
    EXPECT_TRUE(says(error_of(read, ExitCode::kBadConfiguration), "E-RESUME-FINGERPRINT: "));
  }
}

TEST_F(SpectraViewFile, AFileThatIsJustEndingIsReadAgain) {
  write_sample(file_, run_);
  const std::string parts = file_ + ".parts";
  std::filesystem::create_directory(parts);
  std::filesystem::copy_file(file_, parts + "/part-0of1-00000000.h5");
  int reads = 0;
  EXPECT_EQ(read_while_it_stays(file_,
                                [&] {
                                  if (++reads == 1) {
                                    std::filesystem::remove_all(parts);
                                    throw MissingInputError("E-RESULTS-MISSING", "a part");
                                  }
                                  return reads;
                                }),
            2);
  EXPECT_TRUE(says(error_of(
                       [&] {
                         read_while_it_stays(file_, [&]() -> int {
                           ++reads;
                           throw MissingInputError("E-RESULTS-MISSING", "a part");
                         });
                       },
                       ExitCode::kMissingInput),
                   "E-RESULTS-MISSING"));
  EXPECT_EQ(reads, 3) << "nothing has changed: no reason to read once more";
}

TEST_F(SpectraViewFile, WhatIsNoResultsFileIsRefused) {
  EXPECT_TRUE(says(error_of([&] { show(""); }, ExitCode::kMissingInput), "E-RESULTS-MISSING"));
  write_sample(file_, run_);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
  EXPECT_NE(error_of([&] { show(""); }, ExitCode::kMalformedInput), "");
}

}  // namespace
}  // namespace vindex::results::testing::spectra_view_files_test
