// Groups, experts that stand out, rankings and their texts, on matrices made by hand.
#include "report/spectra/spectra_tables.hpp"

#include "report/spectra/spectra_headline.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace vindex::results::testing::show_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

report::MatrixView matrix(std::int32_t layer, model::Block block, const char* role,
                          std::int32_t expert, double value, double null) {
  report::MatrixView out;
  out.tensor = "layers." + std::to_string(layer) + "." + role + "." + std::to_string(expert);
  out.layer = layer;
  out.block = block;
  out.role = role;
  out.expert = expert;
  out.rows = 256;
  out.cols = 192;
  out.encoding = "BF16";
  out.measured = true;
  out.numbers.value = value;
  out.numbers.null = null;
  out.sort_by = value / null;
  return out;
}

/// Experts of one role and layer with these values.
std::vector<report::MatrixView> experts(const std::vector<double>& values) {
  std::vector<report::MatrixView> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.push_back(matrix(1, model::Block::kRoutedExpert, "up_proj", static_cast<std::int32_t>(i),
                         values[i], 0.5));
  }
  return out;
}

report::SpectraView shown(std::vector<report::MatrixView> matrices) {
  report::SpectraView out;
  out.path = "out.h5";
  out.model = "mini";
  out.mode = "default";
  out.backend = "cpu";
  out.state = "partial";
  out.rows_total = 9;
  out.rows_measured = 7;
  out.metric = {.name = "var_at_k", .k = 64, .has_null = true, .is_share = true};
  out.sort_by = "ratio";
  for (report::MatrixView& one : matrices) {
    one.k = 64;
  }
  out.matrices = std::move(matrices);
  return out;
}

TEST(MetricGroups, QuantilesAndMediansByHand) {
  std::vector<report::MatrixView> all = {
      matrix(0, model::Block::kRouter, "router", -1, 0.25, 0.2),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 0, 4.0, 2.0),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 1, 1.0, 2.0),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 2, 3.0, 2.0),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 3, 2.0, 2.0),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 4, kNaN, 2.0),
      matrix(1, model::Block::kRoutedExpert, "up_proj", 5, 9.0, 2.0),
  };
  all[5].numbers.null = kNaN;
  all[6].measured = false;
  all[6].numbers = {};
  const std::vector<report::MetricGroup> groups = report::metric_groups(all);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].role, "router");
  EXPECT_EQ(groups[0].median, 0.25);
  EXPECT_EQ(groups[1].count, 5);
  EXPECT_EQ(groups[1].values, 4);
  EXPECT_EQ(groups[1].median, 2.5);
  EXPECT_EQ(groups[1].q25, 1.75);
  EXPECT_EQ(groups[1].q75, 3.25);
  EXPECT_EQ(groups[1].min, 1.0);
  EXPECT_EQ(groups[1].max, 4.0);
  EXPECT_EQ(groups[1].null, 2.0);
  EXPECT_EQ(groups[1].difference, 0.5);
  EXPECT_EQ(groups[1].ratio, 1.25);
  EXPECT_TRUE(std::isnan(groups[1].sign_flip));
}

TEST(MetricGroups, OfDifferentShapesTheNullIsNoneAndTheRatioStays) {
  const std::vector<report::MatrixView> all = {
      matrix(-1, model::Block::kOther, "proj", -1, 1.0, 1.0),
      matrix(-1, model::Block::kOther, "proj", -1, 4.0, 2.0),
      matrix(-1, model::Block::kOther, "proj", -1, 12.0, 4.0),
  };
  const std::vector<report::MetricGroup> groups = report::metric_groups(all);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_TRUE(std::isnan(groups[0].null));
  EXPECT_EQ(groups[0].ratio, 2.0);
  EXPECT_EQ(groups[0].difference, 2.0);
}

TEST(MetricGroups, NothingMeasuredIsALineOfItsOwn) {
  std::vector<report::MatrixView> all = {
      matrix(3, model::Block::kAttention, "q_proj", -1, kNaN, kNaN)};
  all[0].measured = false;
  const std::vector<report::MetricGroup> groups = report::metric_groups(all);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 0);
  EXPECT_EQ(groups[0].values, 0);
  EXPECT_TRUE(std::isnan(groups[0].median));
}

TEST(ExpertGroups, FarIsByMedianAndMad) {
  // Median 1.025; deviations .025 .025 .075 .075 .125 .975, so MAD .075 and scale .111195.
  const std::vector<report::MatrixView> all = experts({1.0, 1.1, 0.9, 1.05, 0.95, 2.0});
  const std::vector<report::ExpertGroup> groups = report::expert_groups(all);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 6);
  EXPECT_DOUBLE_EQ(groups[0].median, 1.025);
  EXPECT_NEAR(groups[0].scale, 1.4826 * 0.075, 1e-12);
  ASSERT_EQ(groups[0].experts.size(), 2U);
  EXPECT_EQ(groups[0].experts[0].matrix->expert, 2);
  EXPECT_NEAR(groups[0].experts[0].z, -0.125 / 0.111195, 1e-9);
  EXPECT_FALSE(groups[0].experts[0].is_far);
  EXPECT_EQ(groups[0].experts[1].matrix->expert, 5);
  EXPECT_NEAR(groups[0].experts[1].z, 0.975 / 0.111195, 1e-9);
  EXPECT_TRUE(groups[0].experts[1].is_far);
}

TEST(ExpertGroups, FarOnesBetweenTheEndsAreThereInOrder) {
  const std::vector<report::MatrixView> all =
      experts({1.0, 1.01, 0.99, 1.02, 0.98, 1.03, 0.97, 2.0, 3.0, 0.1, 0.2});
  const report::ExpertGroup group = report::expert_groups(all).at(0);
  std::vector<std::int32_t> far;
  for (const report::RankedExpert& expert : group.experts) {
    EXPECT_TRUE(expert.is_far);
    far.push_back(expert.matrix->expert);
  }
  EXPECT_EQ(far, (std::vector<std::int32_t>{9, 10, 7, 8}));
}

TEST(ExpertGroups, MoreThanHalfEqualTakesTheMeanDeviation) {
  const std::vector<report::MatrixView> all = experts({1.0, 1.0, 1.0, 1.0, 2.0});
  const report::ExpertGroup group = report::expert_groups(all).at(0);
  EXPECT_NEAR(group.scale, 1.2533 * 0.2, 1e-12);
  EXPECT_EQ(group.experts.back().matrix->expert, 4);
  EXPECT_TRUE(group.experts.back().is_far);
}

TEST(ExpertGroups, EqualOrFewOnesAreNotFar) {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 1, 1, 1, 1}, {1, 1, 1, 9}, {7}, {1, kNaN, 1, kNaN, 9, 1}}) {
    const std::vector<report::MatrixView> all = experts(values);
    const auto groups = report::expert_groups(all);
    for (const report::RankedExpert& expert : groups.at(0).experts) {
      EXPECT_FALSE(expert.is_far);
    }
  }
}

TEST(ExpertGroups, OnlyRoutedExpertsCount) {
  std::vector<report::MatrixView> all = experts({1, 2, 3});
  all.push_back(matrix(1, model::Block::kSharedExpert, "up_proj", -1, 5.0, 1.0));
  all.push_back(matrix(2, model::Block::kAttention, "q_proj", -1, 5.0, 1.0));
  EXPECT_EQ(report::expert_groups(all).size(), 1U);
}

TEST(TopMatrices, OrderIsByColumnThenByTheFile) {
  std::vector<report::MatrixView> all = experts({0.6, 0.9, 0.9, 0.2, 0.7});
  all[4].sort_by = kNaN;
  const auto numbers = [&](std::size_t count, bool ascending) {
    std::vector<std::int32_t> out;
    for (const report::MatrixView* one : report::top_matrices(all, count, ascending)) {
      out.push_back(one->expert);
    }
    return out;
  };
  EXPECT_EQ(numbers(10, false), (std::vector<std::int32_t>{1, 2, 0, 3}));
  EXPECT_EQ(numbers(2, true), (std::vector<std::int32_t>{3, 0}));
  all[1].measured = false;
  EXPECT_EQ(numbers(1, false), (std::vector<std::int32_t>{2}));
}

std::vector<report::MatrixView> two_groups() {
  std::vector<report::MatrixView> all = {
      matrix(-1, model::Block::kEmbedding, "embed_tokens", -1, kNaN, kNaN)};
  for (report::MatrixView& one : experts({0.7, 0.6, 0.9})) {
    all.push_back(std::move(one));
  }
  return all;
}

TEST(SpectraText, TableOfGroups) {
  const report::SpectraView all = shown(two_groups());
  EXPECT_EQ(report::spectra_headline(all),
            "out.h5: partial, 7 of 9 matrices measured (mode default, back end cpu)\n"
            "unfinished: what is not whole is no random sample (measure --order sampled)\n"
            "var@64: share of the squared norm in the first 64 singular values\n");
  EXPECT_EQ(
      report::groups_text(all, 100),
      "layer  block          role          n  var@64      q25..q75   noise     diff  ratio\n"
      "    -  embedding      embed_tokens  1       -             -       -        -      -\n"
      "    1  routed_expert  up_proj       3  0.7000  0.650..0.800  0.5000  +0.2000  1.400\n");
  // In 80 columns the numbers move together.
  EXPECT_EQ(report::groups_text(all, 80),
            "layer block          role         n var@64     q25..q75  noise    diff ratio\n"
            "    - embedding      embed_tokens 1      -            -      -       -     -\n"
            "    1 routed_expert  up_proj      3 0.7000 0.650..0.800 0.5000 +0.2000 1.400\n");
  EXPECT_EQ(report::groups_text(all, 80, 1),
            "layer  block          role     n  var@64      q25..q75   noise     diff  ratio\n"
            "    1  routed_expert  up_proj  3  0.7000  0.650..0.800  0.5000  +0.2000  1.400\n"
            "(1 further groups: `vindex show out.h5`)\n");
}

TEST(SpectraText, GroupsWithTheirOwnKAndSignFlips) {
  report::SpectraView all = shown(two_groups());
  all.metric.k.reset();
  all.matrices[0].k = 0;
  for (std::size_t i = 1; i < 4; ++i) {
    all.matrices[i].k = 8;
    all.matrices[i].numbers.sign_flip = 0.51;
    all.matrices[i].numbers.sign_flip_z = 12.25;
  }
  EXPECT_EQ(report::groups_text(all, 80),
            "layer block          role         n k  var@k     q25..q75  noise    diff ratio\n"
            "    - embedding      embed_tokens 1 -      -            -      -       -     -\n"
            "    1 routed_expert  up_proj      3 8 0.7000 0.650..0.800 0.5000 +0.2000 1.400\n");
  all.metric.has_sign_flip = true;
  all.metric.has_spread = true;
  EXPECT_EQ(report::groups_text(all, 80),
            "layer block          role         n k  var@k  noise    diff ratio   flip     z\n"
            "    - embedding      embed_tokens 1 -      -      -       -     -      -     -\n"
            "    1 routed_expert  up_proj      3 8 0.7000 0.5000 +0.2000 1.400 0.5100 +12.2\n");
}

/// The words of the first line.
std::vector<std::string> headings_of(const std::string& text) {
  std::istringstream line(text.substr(0, text.find('\n')));
  std::vector<std::string> words;
  for (std::string word; line >> word;) {
    words.push_back(word);
  }
  return words;
}

TEST(SpectraText, ValueNullDifferenceRatioAndSignFlipStayAt80Columns) {
  report::SpectraView all = shown(two_groups());
  all.metric = {.name = "condition_number", .k = {}, .has_null = true};
  all.metric.has_sign_flip = true;
  all.metric.has_spread = true;
  for (report::MatrixView& one : all.matrices) {
    one.tensor = "model.layers.60.mlp.experts.383.down_proj.weight";
    one.layer = 60;
    one.role = "shared_expert_gate_up_proj";
    one.numbers = {.value = -123456789.0, .null = 1.5e-9, .sign_flip = 2.5e9};
    one.numbers.sign_flip_z = -12345.6;
  }
  // The widest numbers that there are leave a group's count and z no room, and names little.
  const std::vector<std::string> numbers = {"noise", "diff", "ratio", "flip"};
  std::vector<std::string> wanted = {"layer", "block", "role", "median"};
  wanted.insert(wanted.end(), numbers.begin(), numbers.end());
  EXPECT_EQ(headings_of(report::groups_text(all, 80)), wanted) << report::groups_text(all, 80);
  EXPECT_NE(report::groups_text(all, 80).find("routed..."), std::string::npos)
      << report::groups_text(all, 80);
  // The difference follows from value and null, and gives way before a name is cut.
  wanted = {"value", "noise", "ratio", "flip", "matrix"};
  for (const char* sort_by : {"ratio", "signflip"}) {
    all.sort_by = sort_by;
    EXPECT_EQ(headings_of(report::top_text(all, 3, false, 80)), wanted)
        << report::top_text(all, 3, false, 80);
  }
  EXPECT_NE(report::top_text(all, 3, false, 80).find(" 60.mlp.experts.383.down_proj\n"),
            std::string::npos);
  all.sort_by = "stable_rank_ratio";
  EXPECT_EQ(headings_of(report::top_text(all, 3, false, 80)).front(), "by");
  EXPECT_NE(report::top_text(all, 3, false, 80).find("by stable_rank_ratio,"), std::string::npos);
  EXPECT_EQ(headings_of(report::groups_text(all, 140)).size(), 11U)
      << report::groups_text(all, 140);
}

TEST(SpectraText, EveryTableFits80Columns) {
  report::SpectraView all = shown(two_groups());
  all.metric.has_sign_flip = true;
  all.metric.has_spread = true;
  all.matrices[1].tensor = "language_model.model.layers.1.mlp.experts.0.up_proj.weight";
  for (report::MatrixView& one : all.matrices) {
    one.layer = one.layer < 0 ? -1 : 60;
    one.role = "shared_expert_gate_up_proj";
    one.numbers.sign_flip = 0.5123;
    one.numbers.sign_flip_z = -123.4;
  }
  for (const bool own_k : {false, true}) {
    if (own_k) {
      all.metric.k.reset();
      all.matrices.back().k = 8;
    }
    for (const std::string& text : {report::groups_text(all, 80), report::experts_text(all, 80),
                                    report::top_text(all, 5, false, 80)}) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 80U) << line;
      }
    }
  }
}

TEST(SpectraText, NumbersOfOtherMetrics) {
  std::vector<report::MatrixView> all = experts({1775.25, 253.04, 0.000123456});
  report::SpectraView ranks = shown(all);
  ranks.metric = {.name = "effective_rank", .k = {}, .has_null = true};
  const std::string text = report::top_text(ranks, 3, false, 100);
  for (const char* number : {"1775", "253.0", "0.0001235", "3550", "506.1", "+1775", "2.5e-04"}) {
    EXPECT_NE(text.find(number), std::string::npos) << number << "\n" << text;
  }
  EXPECT_NE(text.find("value"), std::string::npos) << text;
}

TEST(SpectraText, WhyThereIsNothing) {
  std::vector<report::MatrixView> all = experts({kNaN, kNaN});
  all[0].reason = "fast mode: no tail";
  all[1].reason = "fast mode: no tail";
  report::SpectraView fast = shown(all);
  fast.metric = {.name = "effective_rank", .k = {}, .has_null = true};
  EXPECT_NE(report::groups_text(fast, 80).find(
                "(no matrix here has a value of effective_rank: fast mode: no tail)\n"),
            std::string::npos);
  EXPECT_EQ(report::experts_text(fast, 80), "(no routed expert here has a value)\n");
}

TEST(SpectraText, Experts) {
  const report::SpectraView all = shown(experts({0.5, 0.52, 0.48, 0.51, 0.49, 0.9}));
  EXPECT_EQ(report::experts_text(all, 80),
            "layer  role     expert  var@64  median      z   noise  ratio  which\n"
            "    1  up_proj       2  0.4800  0.5050   -1.1  0.5000  0.960  min\n"
            "    1  up_proj       5  0.9000  0.5050  +17.8  0.5000  1.800  max, far\n"
            "far: 1 of 6 experts, by a robust z beyond 3.5 (from the median and the MAD of\n"
            "their layer and role, 5 experts at least)\n");
}

TEST(SpectraText, Top) {
  const report::SpectraView all = shown(experts({0.5, 0.8}));
  EXPECT_EQ(report::top_text(all, 1, false, 100),
            "var@64   noise     diff  ratio    shape  matrix\n"
            "0.8000  0.5000  +0.3000  1.600  256x192  1.up_proj.1\n"
            "(1 of 2 matrices, by ratio, largest first)\n");
}

TEST(SpectraJson, NumbersAreUnroundedAndNaNIsNull) {
  report::SpectraView all = shown(two_groups());
  all.matrices[1].numbers.value = 2.0 / 3.0;
  all.matrices[2].numbers.value = 2.0 / 3.0;
  const auto groups = nlohmann::json::parse(report::groups_json(all));
  EXPECT_EQ(groups["schema"], "vindex-show/1");
  EXPECT_EQ(groups["state"], "partial");
  EXPECT_EQ(groups["metric"], "var_at_k");
  EXPECT_EQ(groups["k"], 64);
  ASSERT_EQ(groups["groups"].size(), 2U);
  EXPECT_TRUE(groups["groups"][0]["median"].is_null());
  EXPECT_TRUE(groups["groups"][0]["ratio"].is_null());
  EXPECT_EQ(groups["groups"][1]["median"].get<double>(), 2.0 / 3.0);
  EXPECT_EQ(groups["groups"][1]["count"], 3);
  EXPECT_FALSE(groups["groups"][1].contains("signflip"));

  const auto far = nlohmann::json::parse(report::experts_json(all));
  EXPECT_EQ(far["groups"][0]["experts"][1]["expert"], 2);
  EXPECT_EQ(far["groups"][0]["experts"][1]["far"], false);
  EXPECT_EQ(far["groups"][0]["count"], 3);

  const auto top = nlohmann::json::parse(report::top_json(all, 2, true));
  EXPECT_EQ(top["by"], "ratio");
  EXPECT_EQ(top["ascending"], true);
  EXPECT_EQ(top["matrices"].size(), 2U);
  EXPECT_EQ(top["matrices"][0]["by"].get<double>(), 1.2);
}

}  // namespace
}  // namespace vindex::results::testing::show_test
