// Statistics over the experts of a layer: quantiles as numpy's, extremes, groups, and samples.
#include "statistics/layers/layer_statistics.hpp"

#include "statistics/samples/quantile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace vindex::statistics::layer_statistics_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

LayerRow row_of(std::int32_t layer, std::int32_t expert, double var_at_64) {
  LayerRow row;
  row.layer = layer;
  row.block = 4;
  row.role = "up_proj";
  row.expert = expert;
  row.rows = 2048;
  row.cols = 7168;
  row.measured = true;
  row.var_at_64 = var_at_64;
  row.var_at_64_null = 0.0625;
  row.stable_rank = 100.0 + expert;
  row.effective_rank = 200.0 - expert;
  row.sigma_ratio_1_2 = 1.0;
  return row;
}

// numpy 1.24: numpy.quantile([3.5, -1, 2, 8, 0.1, 7], q)
TEST(QuantileTest, EqualsNumpyDefault) {
  const std::vector<double> values = {3.5, -1.0, 2.0, 8.0, 0.1, 7.0};
  EXPECT_DOUBLE_EQ(quantile(values, 0.0), -1.0);
  EXPECT_DOUBLE_EQ(quantile(values, 0.1), -0.45000000000000007);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 0.575);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.75);
  EXPECT_DOUBLE_EQ(quantile(values, 0.75), 6.125);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 7.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 8.0);
}

TEST(QuantileTest, IgnoresNanAndIsNanWhereNothingIsLeft) {
  EXPECT_EQ(quantile({kNaN, 2.0, kNaN, 4.0}, 0.5), 3.0);
  EXPECT_EQ(quantile({7.0}, 0.3), 7.0);
  EXPECT_TRUE(std::isnan(quantile({kNaN}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(LayerGroupsTest, SpreadAndExtremeExpertsOfOneGroup) {
  const std::vector<LayerRow> rows = {row_of(3, 0, 0.4), row_of(3, 1, 0.1), row_of(3, 2, 0.5),
                                      row_of(3, 3, 0.2), row_of(3, 4, 0.3)};
  const std::vector<LayerGroup> groups = layer_groups(rows);
  ASSERT_EQ(groups.size(), 1U);
  const LayerGroup& group = groups[0];
  EXPECT_EQ(group.layer, 3);
  EXPECT_EQ(group.block, 4);
  EXPECT_EQ(group.role, "up_proj");
  EXPECT_EQ(group.count, 5);
  EXPECT_EQ(group.var_at_64_null, 0.0625);
  const Statistic& var = group[LayerMetric::kVarAt64];
  EXPECT_DOUBLE_EQ(var.median, 0.3);
  EXPECT_DOUBLE_EQ(var.q25, 0.2);
  EXPECT_DOUBLE_EQ(var.q75, 0.4);
  EXPECT_DOUBLE_EQ(var.min, 0.1);
  EXPECT_DOUBLE_EQ(var.max, 0.5);
  EXPECT_EQ(var.argmin, 1);
  EXPECT_EQ(var.argmax, 2);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kVarAt64Ratio].max, 8.0);
  EXPECT_EQ(group[LayerMetric::kVarAt64Ratio].argmax, 2);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kStableRank].median, 102.0);
  EXPECT_EQ(group[LayerMetric::kEffectiveRank].argmax, 0);
}

TEST(LayerGroupsTest, OfEqualValuesTheFirstIsNamed) {
  const std::vector<LayerRow> rows = {row_of(0, 7, 0.1), row_of(0, 8, 0.1)};
  const Statistic ratio = layer_groups(rows)[0].statistics[4];
  EXPECT_EQ(ratio.argmin, 7);
  EXPECT_EQ(ratio.argmax, 7);
}

TEST(LayerGroupsTest, GroupsKeepTheOrderOfFirstAppearance) {
  std::vector<LayerRow> rows = {row_of(2, 0, 0.1), row_of(-1, -1, 0.1), row_of(2, 1, 0.1),
                                row_of(2, 0, 0.1)};
  rows[3].role = "down_proj";
  const std::vector<LayerGroup> groups = layer_groups(rows);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].layer, 2);
  EXPECT_EQ(groups[0].count, 2);
  EXPECT_EQ(groups[1].layer, -1);
  EXPECT_EQ(groups[1][LayerMetric::kVarAt64].argmin, -1);
  EXPECT_EQ(groups[2].role, "down_proj");
  EXPECT_TRUE(layer_groups({}).empty());
}

TEST(LayerGroupsTest, UnmeasuredRowsCountForNothing) {
  std::vector<LayerRow> rows = {row_of(1, 0, 0.9), row_of(1, 1, 0.2)};
  rows[0].measured = false;
  rows[0].rows = 5;  // its shape does not matter either
  LayerGroup group = layer_groups(rows)[0];
  EXPECT_EQ(group.count, 1);
  EXPECT_EQ(group.var_at_64_null, 0.0625);
  EXPECT_EQ(group[LayerMetric::kVarAt64].argmax, 1);
  rows[1].measured = false;
  group = layer_groups(rows)[0];
  EXPECT_EQ(group.count, 0);
  EXPECT_TRUE(std::isnan(group.var_at_64_null));
  EXPECT_TRUE(std::isnan(group[LayerMetric::kStableRank].median));
  EXPECT_EQ(group[LayerMetric::kStableRank].argmin, -1);
}

TEST(LayerGroupsTest, NanValuesAreLeftOutOfTheSpread) {
  const std::vector<LayerRow> rows = {row_of(1, 0, kNaN), row_of(1, 1, 0.2), row_of(1, 2, 0.4)};
  const LayerGroup group = layer_groups(rows)[0];
  EXPECT_EQ(group.count, 3);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kVarAt64].median, 0.3);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kStableRank].median, 101.0);
}

TEST(LayerGroupsTest, DifferentShapesHaveNoCommonNull) {
  std::vector<LayerRow> rows = {row_of(1, 0, 0.1), row_of(1, 1, 0.2)};
  rows[1].cols = 4096;
  const LayerGroup group = layer_groups(rows)[0];
  EXPECT_TRUE(std::isnan(group.var_at_64_null));
  EXPECT_TRUE(std::isnan(group[LayerMetric::kVarAt64Ratio].median));
  EXPECT_EQ(group[LayerMetric::kVarAt64Ratio].argmax, -1);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kVarAt64].median, 0.15000000000000002);
}

// Four of eight were drawn and tried, one of them failed; a fifth lies behind a gap.
TEST(LayerGroupsTest, OfADrawnGroupTheFirstPlacesStandForAll) {
  std::vector<LayerRow> rows = {row_of(1, 0, 0.2),  row_of(1, 1, 0.4), row_of(1, 2, 0.9),
                                row_of(1, 3, kNaN), row_of(1, 4, 0.6), row_of(1, 5, kNaN)};
  const std::int32_t draws[] = {2, 0, 6, 1, 3, 4};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].drawn = {.draw = draws[i], .draw_of = 8, .is_tried = true};
  }
  rows[3].measured = false;  // failed
  rows[5].measured = false;  // not reached
  rows[5].drawn.is_tried = false;
  const LayerGroup group = layer_groups(rows)[0];
  EXPECT_EQ(group.count, 4);
  EXPECT_EQ(group.n_measured, 3);
  EXPECT_EQ(group.n_total, 8);
  const std::vector<double> values = {0.2, 0.4, 0.6};
  const MetricEstimates wanted = estimates_of(values, 4);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kVarAt64].median, 0.4);
  EXPECT_DOUBLE_EQ(group[LayerMetric::kVarAt64].max, 0.6);
  EXPECT_DOUBLE_EQ(group.estimates[0].mean.value, 0.4);
  EXPECT_EQ(group.estimates[0].mean.error, wanted.mean.error);
  EXPECT_EQ(group.estimates[0].median.error, wanted.median.error);
  EXPECT_GT(group.estimates[0].mean.error, 0.0);

  rows.push_back(row_of(1, 6, 0.5));  // of no draw, as those of another selection
  EXPECT_EQ(layer_groups(rows)[0].n_measured, 3);
  EXPECT_EQ(layer_groups(rows)[0].count, 5);
}

TEST(LayerGroupsTest, WithoutADrawThereIsNoEstimate) {
  const std::vector<LayerRow> rows = {row_of(1, 0, 0.1), row_of(1, 1, 0.2)};
  const LayerGroup group = layer_groups(rows)[0];
  EXPECT_EQ(group.n_total, 0);
  EXPECT_TRUE(std::isnan(group.estimates[0].mean.value));
}

}  // namespace
}  // namespace vindex::statistics::layer_statistics_test
