// Models measured by hand: means, what is kept apart, the ranking, the count, the documents, and
// which models a folder holds.
#include "fleet/measure_fleet.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/program/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace vindex::fleet::measure_report_test {
namespace {

Spread one(double value) {
  Spread sum;
  sum.add(value);
  return sum;
}

MeasuredTensor matrix(const std::string& name, std::int64_t parameters, double theta) {
  MeasuredTensor tensor;
  tensor.name = name;
  tensor.organ = organ::classify(name);
  tensor.parameters = parameters;
  tensor.slices = 1;
  tensor[TensorFigure::kTheta] = one(theta);
  tensor[TensorFigure::kThetaNull] = one(0.25);
  tensor[TensorFigure::kThetaSeed] = one(20.0);
  return tensor;
}

MeasuredTensor vector(const std::string& name, double seed) {
  MeasuredTensor tensor;
  tensor.name = name;
  tensor.organ = organ::classify(name);
  tensor.parameters = 8;
  tensor[TensorFigure::kThetaSeed] = one(seed);
  tensor.theta_qq = 30.0;
  tensor.theta_qq_null = 15.0;
  return tensor;
}

ModelMeasure model(double theta) {
  ModelMeasure out;
  out.tensors = {matrix("blk.0.attn_q.weight", 100, theta),
                 matrix("blk.0.ffn_up.weight", 300, theta + 8.0),
                 vector("blk.0.attn_norm.weight", 80.0)};
  out.unmeasured = {{"blk.0.odd|name", {}, "convolution"}};
  out.tensors_total = out.stored_counted = 4;
  return out;
}

TEST(SpreadTest, MeanAndDeviationByWeight) {
  Spread spread;
  spread.add(10.0, 1.0);
  spread.add(20.0, 3.0);
  spread.add(std::nan(""), 5.0);
  spread.add(99.0, 0.0);
  EXPECT_DOUBLE_EQ(spread.mean(), 17.5);
  EXPECT_NEAR(spread.sd(), std::sqrt((7.5 * 7.5 + 3.0 * 2.5 * 2.5) / 4.0), 1e-12);
  EXPECT_EQ(spread.min(), 10.0);
  EXPECT_EQ(spread.max(), 20.0);
  EXPECT_EQ(spread.count(), 2);
  EXPECT_TRUE(std::isnan(Spread().mean()));
}

TEST(GroupsTest, WeighByParametersAndKeepOneSideApart) {
  const ModelMeasure measured = model(10.0);
  const GroupStatistics all = group_statistics(measured);
  EXPECT_EQ(all.tensors, 2);
  EXPECT_DOUBLE_EQ(all.theta.mean(), 14.0);
  EXPECT_DOUBLE_EQ(all.theta_weighted.mean(), 16.0);
  EXPECT_DOUBLE_EQ(all.theta_seed.mean(), 20.0) << "the norm's 80 is not in it";
  const organ::OrganClass organ = organ::OrganClass::kOrgan;
  EXPECT_DOUBLE_EQ(group_statistics(measured, &organ).theta.mean(), 18.0);
  EXPECT_EQ(vector_statistics(measured).tensors, 1);
  EXPECT_DOUBLE_EQ(vector_statistics(measured).theta_seed.mean(), 80.0);
  EXPECT_EQ(vector_statistics(measured, &organ).tensors, 0);
}

TEST(CountTest, ALostTensorIsAnError) {
  ModelMeasure measured = model(10.0);
  require_all_counted(measured, 4);
  require_all_counted(measured, -1);
  EXPECT_EQ(testing::error_of([&] { require_all_counted(measured, 5); }), "E-ORGAN-COUNT");
  measured.stored_counted = 3;  // as the published measurement lost 13 of 1,096
  EXPECT_EQ(testing::error_of([&] { require_all_counted(measured, 4); }), "E-ORGAN-COUNT");
}

TEST(ReportTest, RanksByWeightedThetaAndKeepsTheFailed) {
  std::vector<FleetModel> fleet;
  fleet.push_back({.name = "low", .path = "a", .measure = model(10.0)});
  fleet.push_back({.name = "broken", .path = "b", .failure = "E-GGUF: no"});
  fleet.push_back({.name = "high", .path = "c", .measure = model(40.0)});
  const auto document = nlohmann::json::parse(ranking_json(fleet));
  ASSERT_EQ(document["ranking"].size(), 2U);
  EXPECT_EQ(document["ranking"][0]["model"], "high");
  EXPECT_EQ(document["ranking"][0]["rank"], 1);
  EXPECT_EQ(document["ranking"][1]["theta"], 16.0);
  EXPECT_EQ(document["ranking"][1]["theta_null"], 0.25);
  EXPECT_TRUE(document["ranking"][1]["signal"].is_null());
  EXPECT_EQ(document["failed"][0]["reason"], "E-GGUF: no");
  const auto groups = nlohmann::json::parse(groups_json(fleet));
  EXPECT_EQ(groups["low"]["organ"]["theta"]["pmean"], 18.0);
  EXPECT_EQ(groups["low"]["norm"]["one_dimensional"]["n"], 1);
  EXPECT_FALSE(groups.contains("broken"));
  const auto tensors = nlohmann::json::parse(measure_json(*fleet[0].measure));
  EXPECT_EQ(tensors["schema"], "organ-measure/1");
  EXPECT_EQ(tensors["tensors"][2]["theta_qq"], 30.0);
  EXPECT_FALSE(tensors["tensors"][2].contains("theta"));
  EXPECT_EQ(tensors["unmeasured"][0]["reason"], "convolution");
  const std::string text = report_markdown(fleet);
  EXPECT_NE(text.find(kSeedWarning), std::string::npos);
  EXPECT_NE(text.find("| 1 | high |"), std::string::npos);
  EXPECT_NE(text.find("- broken (`b`): E-GGUF: no"), std::string::npos);
  EXPECT_NE(text.find("`blk.0.odd|name`: convolution"), std::string::npos);
  for (const char* claim : {"purer", "purif", "scale law"}) {
    EXPECT_EQ(text.find(claim), std::string::npos) << claim;
  }
}

TEST(FleetTest, FindsModelsBelowAFolder) {
  const testing::TemporaryFolder folder;
  const auto touch = [&](const std::string& name) {
    const std::filesystem::path path = folder.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  };
  for (const char* name :
       {"a/one.gguf", "a/two-00001-of-00002.gguf", "a/two-00002-of-00002.gguf", "b/deep/one.gguf",
        "c/model-00001-of-00002.safetensors", "c/model-00002-of-00002.safetensors",
        ".hidden/no.gguf", "d/readme.md"}) {
    touch(name);
  }
  const std::vector<std::string> found = find_models(folder.path().string());
  EXPECT_EQ(found, (std::vector<std::string>{folder.file("a/one.gguf"),
                                             folder.file("a/two-00001-of-00002.gguf"),
                                             folder.file("b/deep/one.gguf"), folder.file("c")}));
  // Two points before the suffix leave "." of a name, which would be a folder.
  const std::vector<NamedModel> dots = named_models({folder / "..gguf", folder / "...gguf"});
  EXPECT_EQ(dots[0].name, "..gguf");
  EXPECT_EQ(dots[1].name, "...gguf");
  const std::vector<NamedModel> named = named_models(found);
  EXPECT_EQ(named[0].name, "a-one");
  EXPECT_EQ(named[1].name, "two");
  EXPECT_EQ(named[2].name, "deep-one");
  EXPECT_EQ(named[3].name, "c");
  EXPECT_EQ(testing::error_of([&] { (void)find_models(folder.file("d")); }), "E-ORGAN-FLEET");
  EXPECT_EQ(find_models(folder.file("d/readme.md")).size(), 1U) << "a file is itself";
}

}  // namespace
}  // namespace vindex::fleet::measure_report_test
