// Reading for `show`: any metric and k, states of a run, columns of later versions, refusals.
#include "parts_folder.hpp"
#include "sample_run.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/metrics.hpp>
#include <vindex/results/show.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

namespace vindex::results::testing {
namespace {

/// The error that `action` ends with, "ID: message"; empty where it ends well.
std::string error_of(const std::function<void()>& action, ExitCode code = ExitCode::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code) << error.what();
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

model::Selection selection(const char* layers, const char* blocks, const char* roles) {
  return model::parse_selection(layers, blocks, roles, "");
}

class ReadShown : public ::testing::Test {
 protected:
  Shown show(const std::string& metric, std::optional<std::int32_t> k = {},
             const model::Selection& wanted = {}, const std::string& by = "") {
    return read_shown(file_, {.metric = metric, .k = k, .selection = wanted, .sort_by = by});
  }
  std::string refusal(const std::string& metric, std::optional<std::int32_t> k = {},
                      const model::Selection& wanted = {}, const std::string& by = "") {
    return error_of([&] { show(metric, k, wanted, by); });
  }
  /// Puts a float64 column of one number per matrix into the file, as a later version may.
  void add_column(const char* name, double first, double step) {
    std::vector<double> values;
    for (std::size_t i = 0; i < run_.matrices.size(); ++i) {
      values.push_back(first + step * static_cast<double>(i));
    }
    const hsize_t size = values.size();
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    const hid_t data =
        H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(data);
    H5Sclose(space);
    EXPECT_GE(H5Fclose(file), 0);
  }
  /// Puts another text into every row of a column.
  void set_texts(const char* column, const char* name) {
    std::vector<std::string> numbered;
    std::vector<const char*> texts(run_.matrices.size(), name);
    if (std::string_view(column) == "/matrix/tensor") {  // names are keys
      for (std::size_t i = 0; i < texts.size(); ++i) {
        numbered.push_back(name + std::to_string(i));
      }
      std::transform(numbered.begin(), numbered.end(), texts.begin(),
                     [](const std::string& text) { return text.c_str(); });
    }
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t data = H5Dopen2(file, column, H5P_DEFAULT);
    const hid_t type = H5Dget_type(data);
    EXPECT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), 0);
    H5Tclose(type);
    H5Dclose(data);
    EXPECT_GE(H5Fclose(file), 0);
  }
  void add_group(const char* name) {
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    EXPECT_GE(H5Fclose(file), 0);
  }

  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  RunDescription run_ = sample_run({.experts = 5});
};

TEST_F(ReadShown, EveryMetricIsWhatWasMeasured) {
  write_sample(file_, run_);
  for (const measure::MetricRow& metric : measure::metric_rows()) {
    const Shown shown = show(std::string(metric.name));
    EXPECT_EQ(shown.metric.name, metric.name);
    EXPECT_EQ(shown.metric.has_null, metric.has_null);
    ASSERT_EQ(shown.matrices.size(), run_.matrices.size());
    for (std::size_t i = 0; i < shown.matrices.size(); ++i) {
      const ResultRow row = sample_row(run_, static_cast<std::int64_t>(i));
      const MetricNumbers& numbers = shown.matrices[i].numbers;
      const double value = row.values[metric.metric];
      const double null = row.nulls[metric.metric];
      EXPECT_TRUE(std::isnan(value) ? std::isnan(numbers.value) : numbers.value == value)
          << metric.name;
      EXPECT_TRUE(std::isnan(null) ? std::isnan(numbers.null) : numbers.null == null)
          << metric.name;
    }
  }
}

TEST_F(ReadShown, WithoutAKOneThatTellsIsTaken) {
  write_sample(file_, run_);
  // Of 16 x 24 noise has 0.58 at 4, of 8 x 16 0.55 at 2: one k for both is 2.
  const Shown shown = show("");
  EXPECT_EQ(shown.metric.label(), "var@2");
  for (std::size_t i = 0; i < shown.matrices.size(); ++i) {
    const ResultRow row = sample_row(run_, static_cast<std::int64_t>(i));
    EXPECT_EQ(shown.matrices[i].numbers.value, row.values.var_at_k[1]);
    EXPECT_EQ(shown.matrices[i].numbers.null, row.nulls.var_at_k[1]);
    EXPECT_LT(shown.matrices[i].numbers.null, 0.7);
  }
  for (const ShownGroup& group : shown_groups(shown.matrices)) {
    EXPECT_EQ(group.k, 2);
    EXPECT_FALSE(std::isnan(group.ratio));
  }
}

TEST_F(ReadShown, GroupsThatDifferTooMuchHaveTheirOwnK) {
  SampleOptions options;
  options.rows = 300;
  options.cols = 260;
  run_ = sample_run(options);
  write_sample(file_, run_);
  const Shown shown = show("var_at_k");
  EXPECT_EQ(shown.metric.label(), "var@k");
  const std::vector<ShownGroup> groups = shown_groups(shown.matrices);
  ASSERT_EQ(groups.size(), 6U);
  EXPECT_EQ(groups[0].k, 4);  // the router, 8 x 260
  EXPECT_EQ(groups[1].k, 64);
  EXPECT_EQ(shown.matrices[0].numbers.value, sample_row(run_, 0).values.var_at_k[2]);
  EXPECT_EQ(shown.matrices[1].numbers.value, sample_row(run_, 1).values.var_at_k[6]);
  EXPECT_EQ(show("var_at_k", 8).metric.label(), "var@8");
}

TEST_F(ReadShown, AGivenKIsSpelledInThreeWaysAndSaysNothingFromTheShorterSideOn) {
  write_sample(file_, run_);
  for (const auto& [name, k] : std::vector<std::pair<std::string, std::optional<std::int32_t>>>{
           {"var_at_k", 8}, {"var_at_8", {}}, {"var@8", {}}, {"var@8", 8}}) {
    const Shown shown = show(name, k);
    EXPECT_EQ(shown.metric.label(), "var@8");
    EXPECT_TRUE(std::isnan(shown.matrices[0].numbers.value)) << "the router's p is 8";
    EXPECT_TRUE(std::isnan(shown.matrices[0].numbers.null));
    EXPECT_EQ(shown.matrices[1].numbers.value, sample_row(run_, 1).values.var_at_k[3]);
  }
  const std::string text = groups_text(show("var@64"), 80);
  EXPECT_FALSE(says(text, "1.0000")) << text;
  EXPECT_TRUE(says(text, "(no matrix here has a value of var@64)")) << text;
}

TEST_F(ReadShown, UnknownNamesGetTheNearestAndAList) {
  write_sample(file_, run_);
  const std::string metric = refusal("stabel_rank");
  EXPECT_TRUE(says(metric,
                   "E-METRIC: 'stabel_rank' is no metric of this file; did you mean "
                   "stable_rank? there are var_at_k "))
      << metric;
  EXPECT_TRUE(says(metric, " check_gram")) << metric;
  EXPECT_FALSE(says(metric, "\n"));
  EXPECT_TRUE(says(refusal("rows"), "E-METRIC: "));
  EXPECT_TRUE(says(refusal("../run/command"), "E-METRIC: "));
  EXPECT_TRUE(says(refusal("tensor"), "E-METRIC: "));
  EXPECT_TRUE(says(refusal("var@7"), "E-K: k = 7: var_at_k is stored for k = 1 2 4 8 "));
  EXPECT_TRUE(says(refusal("var_at_k", 0), "E-K: "));
  EXPECT_TRUE(says(refusal("var_at_8", 16), "E-K: var_at_8 and --k 16 contradict"));
  EXPECT_TRUE(says(refusal("stable_rank", 8), "E-K: stable_rank has no k"));
  EXPECT_TRUE(says(refusal("var_at_k_null"), "E-K: var_at_k_null needs --k"));
  const std::string column = refusal("", {}, {}, "sigma_mun");
  EXPECT_TRUE(says(column,
                   "E-COLUMN: 'sigma_mun' is no column of this file; did you mean "
                   "sigma_min? there are value "))
      << column;
}

TEST_F(ReadShown, FiltersSayWhatThereIs) {
  write_sample(file_, run_);
  const Shown some = show("gini", {}, selection("1", "routed_expert", "down_proj"));
  ASSERT_EQ(some.matrices.size(), 5U);
  EXPECT_EQ(some.matrices[0].layer, 1);
  EXPECT_EQ(some.matrices_total, 22);
  EXPECT_TRUE(says(refusal("", {}, selection("9", "", "")), "--layer 9: no matrix of ")) << 1;
  EXPECT_TRUE(says(refusal("", {}, selection("9", "", "")), "; there are layers 0-1"));
  EXPECT_TRUE(says(refusal("", {}, selection("0-1,4-8", "", "")), "--layer 4-8: "));
  EXPECT_EQ(show("", {}, selection("0-99", "", "")).matrices.size(), 22U);
  EXPECT_TRUE(
      says(refusal("", {}, selection("", "norm", "")), "; there are router, routed_expert"));
  EXPECT_TRUE(says(refusal("", {}, selection("", "", "dwn_proj")),
                   "; did you mean down_proj? there are down_proj, gate_proj, router"));
  EXPECT_TRUE(says(refusal("", {}, selection("", "router", "down_proj")), "together"));
}

TEST_F(ReadShown, AnyColumnRanks) {
  write_sample(file_, run_);
  const auto first = [&](const std::string& by, const std::string& metric = "") {
    const Shown shown = show(metric, {}, {}, by);
    const ShownMatrix* top = top_matrices(shown.matrices, 1, false).at(0);
    return std::pair<std::size_t, double>(static_cast<std::size_t>(top - shown.matrices.data()),
                                          top->sort_by);
  };
  const auto [place, ratio] = first("");
  const ResultRow row = sample_row(run_, static_cast<std::int64_t>(place));
  EXPECT_EQ(ratio, row.values.var_at_k[1] / row.nulls.var_at_k[1]);
  EXPECT_EQ(show("spectral_norm").sort_by, "value");
  EXPECT_EQ(first("rows").second, 24.0);
  const auto [noisiest, null] = first("var@4_null");
  EXPECT_EQ(null, sample_row(run_, static_cast<std::int64_t>(noisiest)).nulls.var_at_k[2]);
  const auto [other, relative] = first("stable_rank_ratio");
  const ResultRow flattest = sample_row(run_, static_cast<std::int64_t>(other));
  EXPECT_EQ(relative, flattest.values[measure::Metric::kStableRank] /
                          flattest.nulls[measure::Metric::kStableRank]);
  EXPECT_EQ(first("var_at_k_difference").second, first("difference").second);
}

TEST_F(ReadShown, ASignFlipIsFoundByName) {
  run_ = sample_run({.experts = 5, .sign_flip_draws = 1});
  write_sample(file_, run_);
  Shown shown = show("");
  EXPECT_TRUE(shown.metric.has_sign_flip);
  EXPECT_EQ(shown.matrices[3].numbers.sign_flip, 0.25);
  EXPECT_TRUE(says(groups_text(shown, 120), "   flip"));
  EXPECT_FALSE(show("gini").metric.has_sign_flip);
  // Several draws: mean, deviation and z of a metric with one number per matrix.
  add_column("/matrix/gini_signflip_mean", 0.5, 0.0);
  add_column("/matrix/gini_signflip_std", 0.01, 0.0);
  add_column("/matrix/gini_signflip_z", 0.0, 1.0);
  shown = show("gini", {}, {}, "z");
  EXPECT_TRUE(shown.metric.has_spread);
  EXPECT_EQ(shown.matrices[3].numbers.sign_flip, 0.5);
  EXPECT_EQ(shown.matrices[3].numbers.sign_flip_std, 0.01);
  EXPECT_EQ(shown.matrices[3].numbers.sign_flip_z, 3.0);
  EXPECT_EQ(top_matrices(shown.matrices, 1, false).at(0)->sort_by, 21.0);
}

TEST_F(ReadShown, ColumnsAndGroupsOfLaterVersionsAreShownOrPassedOver) {
  write_sample(file_, run_);
  add_column("/matrix/brand_new", 1.0, 0.5);
  add_group("/matrix/folder");
  add_group("/later");
  EXPECT_EQ(show("brand_new").matrices[2].numbers.value, 2.0);
  EXPECT_TRUE(says(refusal("brand_mew"), "did you mean brand_new?"));
  EXPECT_TRUE(says(refusal("folder"), "E-METRIC: "));
  EXPECT_FALSE(std::isnan(show("").matrices[2].numbers.value));
  set_texts("/matrix/block", "connector");
  EXPECT_EQ(show("").matrices[2].block, model::Block::kOther);
}

TEST_F(ReadShown, PartialFilesAndPartsAlone) {
  {
    const auto store = open_run_store(file_, run_, {}, false);
    measure_rows(*store, run_, 0, 4);
    store->publish_part();
  }
  Shown shown = show("gini");
  EXPECT_EQ(shown.state, "running");
  EXPECT_EQ(shown.matrices_measured, 4);
  EXPECT_EQ(shown.matrices.size(), 22U);
  EXPECT_EQ(shown.matrices[3].numbers.value, sample_row(run_, 3).values[measure::Metric::kGini]);
  EXPECT_TRUE(std::isnan(shown.matrices[4].numbers.value));
  {
    const auto store = open_run_store(file_, run_, {}, false);
    store->publish_file();
    measure_rows(*store, run_, 4, 7);
    store->publish_part();
  }
  shown = show("gini");
  EXPECT_EQ(shown.state, "partial");
  EXPECT_EQ(shown.matrices_measured, 7);
  for (const std::size_t i : {std::size_t{3}, std::size_t{6}}) {  // of the file and of a part
    EXPECT_EQ(shown.matrices[i].numbers.value,
              sample_row(run_, static_cast<std::int64_t>(i)).values[measure::Metric::kGini]);
  }
  EXPECT_TRUE(says(shown_headline(shown), ": partial, 7 of 22 matrices measured"));
  const std::string parts = file_ + ".parts";
  for (const auto& entry : std::filesystem::directory_iterator(parts)) {
    if (entry.path().extension() == ".h5") {
      EXPECT_TRUE(says(error_of([&] { read_shown(entry.path(), {}); }), "E-RESULTS-PART: "));
    }
  }
}

TEST_F(ReadShown, ADerivedTableIsShownByItself) {
  const std::size_t matrices = run_.matrices.size();
  for (std::size_t i = 0; i < matrices; ++i) {
    if (run_.matrices[i].role == "down_proj") {
      run_.matrices.push_back(run_.matrices[i]);
      run_.matrices.back().table = model::ResultTable::kImatrix;
    }
  }
  write_sample(file_, run_);
  EXPECT_EQ(show("gini").matrices.size(), matrices);
  ShowQuery query;
  query.metric = "gini";
  query.table = model::ResultTable::kImatrix;
  const Shown shown = read_shown(file_, query);
  ASSERT_EQ(shown.matrices.size(), 10U);
  EXPECT_EQ(shown.matrices_total, 10);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(
        shown.matrices[i].numbers.value,
        sample_row(run_, static_cast<std::int64_t>(matrices + i)).values[measure::Metric::kGini]);
  }
  EXPECT_TRUE(says(shown_headline(shown), "10 of 10 rows of /imatrix/ measured"));
  query.table = model::ResultTable::kProduct;
  EXPECT_TRUE(
      says(error_of([&] { read_shown(file_, query); }, ExitCode::kMissingInput), "E-SHOW-TABLE: "));
}

TEST_F(ReadShown, FastFilesShowWhatTheyHave) {
  run_ = sample_run({.experts = 5, .rows = 300, .cols = 260, .mode = "fast"});
  write_sample(file_, run_);
  EXPECT_FALSE(std::isnan(show("var@64").matrices[1].numbers.ratio()));
  EXPECT_TRUE(says(groups_text(show("effective_rank"), 80),
                   "(no matrix here has a value of effective_rank: fast mode: no tail"));
}

// A results file may come from anywhere; what it holds must not drive the terminal.
TEST_F(ReadShown, TextsOfAFileArePrintable) {
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
  EXPECT_TRUE(is_clean(groups_text(show(""), 80)));
  EXPECT_TRUE(is_clean(top_text(show(""), 3, false, 80)));
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, "/matrix/status", H5P_DEFAULT);
  const hid_t type = H5Dget_type(data);
  const std::vector<std::int8_t> codes(run_.matrices.size(),
                                       static_cast<std::int8_t>(measure::Status::kFailed));
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

TEST_F(ReadShown, PartsOfAnotherRunAreNotMixedIn) {
  const RunDescription fast = sample_run({.experts = 5, .rows = 300, .cols = 260, .mode = "fast"});
  {
    const auto store = open_run_store(file_, fast, {}, false);
    measure_rows(*store, fast, 0, 4);
    store->publish_part();
  }
  ASSERT_TRUE(std::filesystem::exists(file_ + ".parts"));
  write_sample((folder_ / "other.h5"), run_);
  std::filesystem::rename(folder_ / "other.h5", file_);
  for (const auto& read : std::vector<std::function<void()>>{[&] { read_shown(file_, {}); },
                                                             [&] { (void)read_status(file_); }}) {
    EXPECT_TRUE(says(error_of(read, ExitCode::kBadConfiguration), "E-RESUME-FINGERPRINT: "));
  }
}

TEST_F(ReadShown, AFileThatIsJustEndingIsReadAgain) {
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

TEST_F(ReadShown, WhatIsNoResultsFileIsRefused) {
  EXPECT_TRUE(says(error_of([&] { show(""); }, ExitCode::kMissingInput), "E-RESULTS-MISSING"));
  write_sample(file_, run_);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
  EXPECT_NE(error_of([&] { show(""); }, ExitCode::kMalformedInput), "");
}

}  // namespace
}  // namespace vindex::results::testing
