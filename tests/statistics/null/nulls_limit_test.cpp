// The nulls against the limit law, for the shapes of well-known models.
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metric_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::statistics::nulls_limit_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Computed apart from this program: x = a + (b-a) sin^2 t, 4e5 points of the density, var_at_k by
// interpolation of the cumulative mass from the top. Columns as printed there, so that half a unit
// of the last digit is the tolerance.
struct TableRow {
  const char* matrix;
  std::int64_t p, n;
  double var_at[7];  // k = 1 8 16 32 64 128 256
  double effective_rank_over_p, effective_rank_sigma, participation_over_p, stable_rank, condition,
      gini, hill;
};
// clang-format off
const std::vector<TableRow> kTable = {
    {"K2/DSv3 expert", 2048, 7168, {0.00114, 0.00904, 0.01791, 0.03525, 0.06871, 0.13183, 0.24632}, 0.8669, 1968.0, 0.7778, 869.7, 3.297, 0.3030, 3.29},
    {"K2/DSv3 dense MLP", 7168, 18432, {0.00037, 0.00292, 0.00581, 0.01153, 0.02277, 0.04465, 0.08652}, 0.8233, 6772.7, 0.7200, 2719.2, 4.314, 0.3512, 2.95},
    {"q_a_proj", 1536, 7168, {0.00139, 0.01094, 0.02165, 0.04256, 0.08277, 0.15821, 0.29368}, 0.8984, 1492.0, 0.8235, 717.7, 2.724, 0.2635, 3.65},
    {"K2 q_b_proj", 1536, 12288, {0.00119, 0.00940, 0.01864, 0.03677, 0.07191, 0.13870, 0.26139}, 0.9394, 1511.1, 0.8889, 838.4, 2.094, 0.2023, 4.47},
    {"DSv3 q_b_proj", 1536, 24576, {0.00101, 0.00805, 0.01599, 0.03166, 0.06227, 0.12124, 0.23206}, 0.9692, 1523.8, 0.9412, 983.0, 1.667, 0.1436, 5.88},
    {"kv_a_proj_with_mqa", 576, 7168, {0.00284, 0.02235, 0.04407, 0.08616, 0.16611, 0.31269, 0.56422}, 0.9606, 570.1, 0.9256, 349.7, 1.791, 0.1626, 5.31},
    {"K2 kv_b_proj", 512, 16384, {0.00269, 0.02128, 0.04213, 0.08290, 0.16152, 0.30938, 0.57487}, 0.9845, 510.0, 0.9697, 369.7, 1.429, 0.1017, 7.85},
    {"DSv3 kv_b_proj", 512, 32768, {0.00246, 0.01953, 0.03878, 0.07666, 0.15044, 0.29160, 0.55300}, 0.9922, 511.0, 0.9846, 404.5, 1.286, 0.0720, 10.6},
    {"K2 o_proj", 7168, 8192, {0.00052, 0.00414, 0.00822, 0.01626, 0.03200, 0.06233, 0.11943}, 0.6456, 6055.9, 0.5333, 1913.6, 29.97, 0.5101, 2.23},
    {"DSv3 o_proj", 7168, 16384, {0.00038, 0.00305, 0.00608, 0.01206, 0.02381, 0.04665, 0.09025}, 0.8035, 6715.3, 0.6957, 2596.7, 4.907, 0.3714, 2.83},
    {"K2 router", 384, 7168, {0.00392, 0.03078, 0.06062, 0.11822, 0.22694, 0.42382, 0.75174}, 0.9736, 381.4, 0.9492, 253.2, 1.602, 0.1330, 6.26},
    {"DSv3 router", 256, 7168, {0.00548, 0.04293, 0.08441, 0.16418, 0.31362, 0.58002, 1.0}, 0.9823, 254.8, 0.9655, 181.1, 1.466, 0.1087, 7.42},
    {"K2 embed/lm_head", 7168, 163840, {0.00020, 0.00163, 0.00325, 0.00647, 0.01288, 0.02555, 0.05046}, 0.9784, 7128.3, 0.9581, 4902.6, 1.529, 0.1203, 6.81},
    {"DSv4-Pro expert", 3072, 7168, {0.00089, 0.00702, 0.01392, 0.02746, 0.05368, 0.10349, 0.19500}, 0.8071, 2882.6, 0.7000, 1122.0, 4.791, 0.3678, 2.86},
    {"DSv4-Flash expert", 2048, 4096, {0.00142, 0.01115, 0.02202, 0.04319, 0.08367, 0.15893, 0.29199}, 0.7788, 1896.6, 0.6667, 702.8, 5.828, 0.3955, 2.71},
    {"Kimi-K3 expert", 3072, 3584, {0.00120, 0.00947, 0.01874, 0.03680, 0.07147, 0.13635, 0.25237}, 0.6514, 2610.2, 0.5385, 828.3, 25.96, 0.5055, 2.24},
    {"Qwen3-235B expert", 1536, 4096, {0.00168, 0.01324, 0.02612, 0.05112, 0.09874, 0.18661, 0.33986}, 0.8290, 1454.7, 0.7273, 590.8, 4.160, 0.3452, 2.99},
    {"Qwen3-30B-A3B expert", 768, 2048, {0.00335, 0.02612, 0.05112, 0.09874, 0.18661, 0.33986, 0.57990}, 0.8290, 727.4, 0.7273, 295.4, 4.160, 0.3452, 2.99},
    {"Mixtral / Llama-3-8B MLP", 4096, 14336, {0.00057, 0.00455, 0.00904, 0.01791, 0.03525, 0.06871, 0.13183}, 0.8669, 3936.0, 0.7778, 1739.5, 3.297, 0.3030, 3.29},
    {"gpt-oss down", 2880, 2880, {0.00138, 0.01088, 0.02149, 0.04212, 0.08158, 0.15484, 0.28420}, 0.6065, 2318.5, 0.5, 720.0, kNaN, 0.5404, 2.12},
    {"Llama-3-70B MLP", 8192, 28672, {0.00029, 0.00228, 0.00455, 0.00904, 0.01791, 0.03525, 0.06871}, 0.8669, 7871.9, 0.7778, 3478.9, 3.297, 0.3030, 3.29},
    {"Llama-405B MLP", 16384, 53248, {0.00015, 0.00118, 0.00234, 0.00467, 0.00928, 0.01837, 0.03614}, 0.8574, 15689.4, 0.7647, 6778.4, 3.491, 0.3140, 3.21},
    {"Llama-8B q/o", 4096, 4096, {0.00097, 0.00768, 0.01522, 0.02996, 0.05842, 0.11216, 0.20987}, 0.6065, 3297.4, 0.5, 1024.0, kNaN, 0.5404, 2.12},
    {"Llama-8B k/v", 1024, 4096, {0.00218, 0.01714, 0.03375, 0.06588, 0.12668, 0.23754, 0.42665}, 0.8825, 989.4, 0.8, 455.1, 3.000, 0.2840, 3.46},
    {"Qwen3-8B / Bonsai-8B MLP", 4096, 12288, {0.00061, 0.00481, 0.00955, 0.01889, 0.03715, 0.07230, 0.13835}, 0.8465, 3906.2, 0.75, 1646.3, 3.732, 0.3263, 3.12},
    {"BitNet-2B4T MLP", 2560, 6912, {0.00101, 0.00796, 0.01576, 0.03105, 0.06061, 0.11655, 0.21860}, 0.8310, 2426.5, 0.7297, 989.4, 4.110, 0.3432, 3.00},
    {"Gemma4-E2B MLP", 1536, 6144, {0.00146, 0.01149, 0.02272, 0.04461, 0.08662, 0.16507, 0.30493}, 0.8825, 1484.1, 0.8, 682.7, 3.000, 0.2840, 3.46},
};
// clang-format on

// What finite size adds to the limit: 1.4 % at the edges of the smallest shapes here, else a tenth
// of a per cent, and half a digit of the table.
void expect_near_limit(double value, double printed, double unit, double relative,
                       const TableRow& row, const char* name) {
  EXPECT_NEAR(value, printed, 0.55 * unit + relative * printed) << row.matrix << " " << name;
}

TEST(NullMetricsTest, TendToTheLimitLawForEveryShape) {
  ASSERT_EQ(kTable.size(), 27U);
  const std::size_t columns[7] = {0, 3, 4, 5, 6, 7, 8};
  for (const TableRow& row : kTable) {
    const MetricValues nulls = null_metrics(row.p, row.n);
    for (std::size_t i = 0; i < 7; ++i) {
      expect_near_limit(nulls.var_at_k[columns[i]], row.var_at[i], 1e-5, i == 0 ? 4e-3 : 2e-3, row,
                        "var_at_k");
    }
    const auto p = static_cast<double>(row.p);
    expect_near_limit(nulls[Metric::kEffectiveRank] / p, row.effective_rank_over_p, 1e-4, 5e-4, row,
                      "erank2");
    expect_near_limit(nulls[Metric::kEffectiveRankSigma], row.effective_rank_sigma, 0.1, 5e-4, row,
                      "erank");
    expect_near_limit(nulls[Metric::kParticipationRatio] / p, row.participation_over_p, 1e-4, 1e-3,
                      row, "PR");
    expect_near_limit(nulls[Metric::kStableRank], row.stable_rank, 0.1, 0.014, row, "stable rank");
    if (std::isnan(row.condition)) {
      EXPECT_TRUE(std::isnan(nulls[Metric::kConditionNumber])) << row.matrix;
    } else {
      expect_near_limit(nulls[Metric::kConditionNumber], row.condition,
                        row.condition > 10.0 ? 1e-2 : 1e-3, row.condition > 10.0 ? 0.05 : 0.015,
                        row, "condition");
    }
    expect_near_limit(nulls[Metric::kGini], row.gini, 1e-4, 2e-3, row, "gini");
    expect_near_limit(nulls[Metric::kHillAlpha], row.hill, row.hill > 10.0 ? 0.1 : 1e-2, 8e-3, row,
                      "hill");
    EXPECT_EQ(nulls[Metric::kNumericalRank], p);
  }
}

TEST(NullMetricsTest, FiguresOfTheContract) {
  EXPECT_NEAR(null_metrics(7168, 2048).var_at_k[6], 0.0687, 5e-5);
  EXPECT_NEAR(null_metrics(384, 7168).var_at_k[6], 0.227, 5e-4);
  EXPECT_NEAR(null_metrics(4096, 12288).var_at_k[6], 0.0371, 7e-5);
}

}  // namespace
}  // namespace vindex::statistics::nulls_limit_test
