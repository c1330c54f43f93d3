// Reading for `show`: any metric and k, filters, ranks, columns of later versions, refusals.
#include "spectra_view_fixture.hpp"

#include "statistics/spectrum/metric_table.hpp"

#include <cmath>

namespace vindex::results::testing::spectra_view_test {
namespace {

TEST_F(SpectraViewFile, EveryMetricIsWhatWasMeasured) {
  write_sample(file_, run_);
  for (const statistics::MetricRow& metric : statistics::metric_rows()) {
    const report::SpectraView shown = show(std::string(metric.name));
    EXPECT_EQ(shown.metric.name, metric.name);
    EXPECT_EQ(shown.metric.has_null, metric.has_null);
    ASSERT_EQ(shown.matrices.size(), run_.matrices.size());
    for (std::size_t i = 0; i < shown.matrices.size(); ++i) {
      const commands::SpectrumNumbers row = sample_numbers(run_, static_cast<std::int64_t>(i));
      const report::MetricNumbers& numbers = shown.matrices[i].numbers;
      const double value = row.values[metric.metric];
      const double null = row.nulls[metric.metric];
      EXPECT_TRUE(std::isnan(value) ? std::isnan(numbers.value) : numbers.value == value)
          << metric.name;
      EXPECT_TRUE(std::isnan(null) ? std::isnan(numbers.null) : numbers.null == null)
          << metric.name;
    }
  }
}

TEST_F(SpectraViewFile, WithoutAKOneThatTellsIsTaken) {
  write_sample(file_, run_);
  // Of 16 x 24 noise has 0.58 at 4, of 8 x 16 0.55 at 2: one k for both is 2.
  const report::SpectraView shown = show("");
  EXPECT_EQ(shown.metric.label(), "var@2");
  for (std::size_t i = 0; i < shown.matrices.size(); ++i) {
    const commands::SpectrumNumbers row = sample_numbers(run_, static_cast<std::int64_t>(i));
    EXPECT_EQ(shown.matrices[i].numbers.value, row.values.var_at_k[1]);
    EXPECT_EQ(shown.matrices[i].numbers.null, row.nulls.var_at_k[1]);
    EXPECT_LT(shown.matrices[i].numbers.null, 0.7);
  }
  for (const report::MetricGroup& group : report::metric_groups(shown.matrices)) {
    EXPECT_EQ(group.k, 2);
    EXPECT_FALSE(std::isnan(group.ratio));
  }
}

TEST_F(SpectraViewFile, GroupsThatDifferTooMuchHaveTheirOwnK) {
  SampleOptions options;
  options.rows = 300;
  options.cols = 260;
  run_ = sample_run(options);
  write_sample(file_, run_);
  const report::SpectraView shown = show("var_at_k");
  EXPECT_EQ(shown.metric.label(), "var@k");
  const std::vector<report::MetricGroup> groups = report::metric_groups(shown.matrices);
  ASSERT_EQ(groups.size(), 6U);
  EXPECT_EQ(groups[0].k, 4);  // the router, 8 x 260
  EXPECT_EQ(groups[1].k, 64);
  EXPECT_EQ(shown.matrices[0].numbers.value, sample_numbers(run_, 0).values.var_at_k[2]);
  EXPECT_EQ(shown.matrices[1].numbers.value, sample_numbers(run_, 1).values.var_at_k[6]);
  EXPECT_EQ(show("var_at_k", 8).metric.label(), "var@8");
}

TEST_F(SpectraViewFile, AGivenKIsSpelledInThreeWaysAndSaysNothingFromTheShorterSideOn) {
  write_sample(file_, run_);
  for (const auto& [name, k] : std::vector<std::pair<std::string, std::optional<std::int32_t>>>{
           {"var_at_k", 8}, {"var_at_8", {}}, {"var@8", {}}, {"var@8", 8}}) {
    const report::SpectraView shown = show(name, k);
    EXPECT_EQ(shown.metric.label(), "var@8");
    EXPECT_TRUE(std::isnan(shown.matrices[0].numbers.value)) << "the router's p is 8";
    EXPECT_TRUE(std::isnan(shown.matrices[0].numbers.null));
    EXPECT_EQ(shown.matrices[1].numbers.value, sample_numbers(run_, 1).values.var_at_k[3]);
  }
  const std::string text = report::groups_text(show("var@64"), 80);
  EXPECT_FALSE(says(text, "1.0000")) << text;
  EXPECT_TRUE(says(text, "(no matrix here has a value of var@64)")) << text;
}

TEST_F(SpectraViewFile, UnknownNamesGetTheNearestAndAList) {
  write_sample(file_, run_);
  const std::string metric = refusal("stabel_rank");
  EXPECT_TRUE(says(metric,
                   "E-METRIC: 'stabel_rank' is not a metric of this file; did you mean "
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
                   "E-COLUMN: 'sigma_mun' is not a column of this file; did you mean "
                   "sigma_min? there are value "))
      << column;
}

TEST_F(SpectraViewFile, FiltersSayWhatThereIs) {
  write_sample(file_, run_);
  const report::SpectraView some = show("gini", {}, selection("1", "routed_expert", "down_proj"));
  ASSERT_EQ(some.matrices.size(), 5U);
  EXPECT_EQ(some.matrices[0].layer, 1);
  EXPECT_EQ(some.rows_total, 22);
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

TEST_F(SpectraViewFile, AnyColumnRanks) {
  write_sample(file_, run_);
  const auto first = [&](const std::string& by, const std::string& metric = "") {
    const report::SpectraView shown = show(metric, {}, {}, by);
    const report::MatrixView* top = report::top_matrices(shown.matrices, 1, false).at(0);
    return std::pair<std::size_t, double>(static_cast<std::size_t>(top - shown.matrices.data()),
                                          top->sort_by);
  };
  const auto [place, ratio] = first("");
  const commands::SpectrumNumbers row = sample_numbers(run_, static_cast<std::int64_t>(place));
  EXPECT_EQ(ratio, row.values.var_at_k[1] / row.nulls.var_at_k[1]);
  EXPECT_EQ(show("spectral_norm").sort_by, "value");
  EXPECT_EQ(first("rows").second, 24.0);
  const auto [noisiest, null] = first("var@4_null");
  EXPECT_EQ(null, sample_numbers(run_, static_cast<std::int64_t>(noisiest)).nulls.var_at_k[2]);
  const auto [other, relative] = first("stable_rank_ratio");
  const commands::SpectrumNumbers flattest = sample_numbers(run_, static_cast<std::int64_t>(other));
  EXPECT_EQ(relative, flattest.values[statistics::Metric::kStableRank] /
                          flattest.nulls[statistics::Metric::kStableRank]);
  EXPECT_EQ(first("var_at_k_difference").second, first("difference").second);
}

TEST_F(SpectraViewFile, ASignFlipIsFoundByName) {
  run_ = sample_run({.experts = 5, .sign_flip_draws = 1});
  write_sample(file_, run_);
  report::SpectraView shown = show("");
  EXPECT_TRUE(shown.metric.has_sign_flip);
  EXPECT_EQ(shown.matrices[3].numbers.sign_flip, 0.25);
  EXPECT_TRUE(says(report::groups_text(shown, 120), "   flip"));
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
  EXPECT_EQ(report::top_matrices(shown.matrices, 1, false).at(0)->sort_by, 21.0);
}

TEST_F(SpectraViewFile, ColumnsAndGroupsOfLaterVersionsAreShownOrPassedOver) {
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

TEST_F(SpectraViewFile, ADerivedTableIsShownByItself) {
  const std::size_t matrices = run_.matrices.size();
  for (std::size_t i = 0; i < matrices; ++i) {
    if (run_.matrices[i].role == "down_proj") {
      run_.matrices.push_back(run_.matrices[i]);
      run_.matrices.back().table = model::ResultTable::kImatrix;
    }
  }
  write_sample(file_, run_);
  EXPECT_EQ(show("gini").matrices.size(), matrices);
  report::ShowQuery query;
  query.metric = "gini";
  query.table = model::ResultTable::kImatrix;
  const report::SpectraView shown = report::read_spectra_view(file_, query);
  ASSERT_EQ(shown.matrices.size(), 10U);
  EXPECT_EQ(shown.rows_total, 10);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(shown.matrices[i].numbers.value,
              sample_numbers(run_, static_cast<std::int64_t>(matrices + i))
                  .values[statistics::Metric::kGini]);
  }
  EXPECT_TRUE(says(report::spectra_headline(shown), "10 of 10 rows of /imatrix/ measured"));
  query.table = model::ResultTable::kProduct;
  EXPECT_TRUE(
      says(error_of([&] { report::read_spectra_view(file_, query); }, ExitCode::kMissingInput),
           "E-SHOW-TABLE: "));
}

TEST_F(SpectraViewFile, FastFilesShowWhatTheyHave) {
  run_ = sample_run({.experts = 5, .rows = 300, .cols = 260, .mode = "fast"});
  write_sample(file_, run_);
  EXPECT_FALSE(std::isnan(show("var@64").matrices[1].numbers.ratio()));
  EXPECT_TRUE(says(report::groups_text(show("effective_rank"), 80),
                   "(no matrix here has a value of effective_rank: fast mode: no tail"));
}

}  // namespace
}  // namespace vindex::results::testing::spectra_view_test
