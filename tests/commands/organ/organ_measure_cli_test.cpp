// `vindex organ measure` through the program: real and built models, fleets, resume, what is told.
#include "tests/support/float_model.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>

namespace vindex::testing::organ_measure_cli_test {
namespace {

using Json = nlohmann::json;

class OrganMeasure : public ProgramTest {
 protected:
  std::string organ_measured(const std::string& model, const std::string& name,
                             std::vector<std::string> more = {}, int exit_code = 0) {
    const std::string out = folder_.file(name);
    std::vector<std::string> arguments = {"organ", "measure",    model, "-o",
                                          out,     "--progress", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    must(arguments, exit_code);
    return out;
  }
  static Json json(const std::string& path) { return Json::parse(file_text(path)); }
  static const Json& tensor(const Json& report, const std::string& name) {
    for (const Json& one : report["tensors"]) {
      if (one["name"] == name) {
        return one;
      }
    }
    static const Json kNone;
    ADD_FAILURE() << "no tensor " << name;
    return kNone;
  }

  /// Two blocks, and tensors of every kind that has no spectrum.
  std::string built(const std::string& path, unsigned seed = 0) {
    std::vector<FloatTensor> tensors = {
        noise_tensor("token_embd.weight", {40, 32}, seed + 1),
        noise_tensor("blk.0.attn_q.weight", {32, 32}, seed + 2),
        noise_tensor("blk.0.ffn_up_exps.weight", {3, 24, 32}, seed + 3),
        noise_tensor("blk.0.attn_norm.weight", {32}, seed + 4),
        noise_tensor("blk.1.attn_q.bias", {32}, seed + 5),
        noise_tensor("blk.1.ffn_norm.weight", {32}, seed + 6),
        noise_tensor("output_norm.weight", {32}, seed + 7),
        noise_tensor("rope_freqs.weight", {3}, seed + 8),
        noise_tensor("blk.1.ssm_conv1d.weight", {2, 3, 4, 5}, seed + 9)};
    tensors[5].values.assign(32, 1.0F);
    tensors[6].values[3] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < 32 * 32; ++i) {  // one direction beside the noise
      tensors[1].values[i] += 0.2F;
    }
    write_gguf(path, tensors, [](GgufBuilder& file) {
      file.key_string("general.architecture", "llama").key_u32("llama.block_count", 2);
    });
    return path;
  }
};

TEST_F(OrganMeasure, EveryTensorIsMeasuredOrListed) {
  const std::string out = organ_measured(built(folder_.file("tiny.gguf")), "out");
  must({"validate", out + "/tiny.h5"});
  const Json report = json(out + "/tiny.measure.json");
  EXPECT_EQ(report["schema"], "organ-measure/1");
  EXPECT_EQ(report["arch"], "llama");
  EXPECT_EQ(report["tensors_total"], 9);
  EXPECT_EQ(report["tensors_measured"].get<int>() + static_cast<int>(report["unmeasured"].size()),
            9);
  std::map<std::string, std::string> reasons;
  for (const Json& one : report["unmeasured"]) {
    reasons[one["name"]] = one["reason"];
  }
  EXPECT_EQ(reasons.size(), 3U);
  EXPECT_NE(reasons["output_norm.weight"].find("not finite"), std::string::npos);
  EXPECT_NE(reasons["rope_freqs.weight"].find("fewer than 4"), std::string::npos);
  EXPECT_FALSE(reasons["blk.1.ssm_conv1d.weight"].empty());
  EXPECT_EQ(tensor(report, "blk.1.ffn_norm.weight")["theta_seed"], 0.0);
  EXPECT_EQ(tensor(report, "blk.1.ffn_norm.weight")["remark"], "constant");
  EXPECT_TRUE(tensor(report, "blk.1.ffn_norm.weight")["theta_qq"].is_null());
  const Json& signal = tensor(report, "blk.0.attn_q.weight");
  EXPECT_GT(signal["theta"].get<double>(), 30.0);
  EXPECT_EQ(signal["rank_gd"], 1.0);
  EXPECT_EQ(signal["class"], "skeleton");
  EXPECT_NEAR(signal["signal"].get<double>(),
              std::sin(signal["theta"].get<double>() * std::acos(-1.0) / 180.0), 1e-9);
  const Json& stack = tensor(report, "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(stack["slices"], 3);
  EXPECT_EQ(stack["class"], "organ");
  EXPECT_LE(stack["theta"]["min"].get<double>(), stack["theta"]["mean"].get<double>());
  EXPECT_GT(stack["theta_seed"]["sd"].get<double>(), 0.0);
  EXPECT_EQ(tensor(report, "blk.1.attn_q.bias")["kind"], "bias");
  EXPECT_EQ(report["groups"]["all"]["n"], 3);
  EXPECT_EQ(report["groups"]["all"]["one_dimensional"]["n"], 3);
  EXPECT_EQ(report["groups"]["norm"]["one_dimensional"]["n"], 2);
}

TEST_F(OrganMeasure, WritesEveryReportAndTakesNothingTwice) {
  const std::string model = built(folder_.file("tiny.gguf"));
  const std::string out = organ_measured(model, "out");
  for (const char* name : {"tiny.h5", "tiny.measure.json", "z_report_complete.json",
                           "z_measure_report.json", "dissection_report.json", "report.md"}) {
    EXPECT_TRUE(std::filesystem::exists(out + "/" + name)) << name;
  }
  const Json ranking = json(out + "/z_measure_report.json");
  EXPECT_EQ(ranking["ranking"][0]["tensors_total"], 9);
  EXPECT_EQ(json(out + "/dissection_report.json")["models"][0]["bytes"],
            std::filesystem::file_size(model));
  EXPECT_TRUE(json(out + "/z_report_complete.json").contains("tiny"));
  const double seconds = json(out + "/dissection_report.json")["models"][0]["seconds"];
  const auto written = std::filesystem::last_write_time(out + "/tiny.h5");
  (void)organ_measured(model, "out");
  EXPECT_EQ(std::filesystem::last_write_time(out + "/tiny.h5"), written)
      << "nothing was left to do";
  EXPECT_EQ(json(out + "/dissection_report.json")["models"][0]["seconds"], seconds);
  EXPECT_NE(file_text(out + "/report.md").find("no measure of"), std::string::npos);
}

TEST_F(OrganMeasure, AFileAloneAndItsReports) {
  const std::string model = built(folder_.file("tiny.gguf"));
  const std::string file = organ_measured(model, "one.h5", {"--report", folder_.file("reports")});
  EXPECT_TRUE(std::filesystem::exists(folder_.file("reports/report.md")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("reports/tiny.h5")));
  const ProgramResult shown = run({"show", file, "--top", "1", "--by", "theta", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("blk.0.attn_q.weight"), std::string::npos) << shown.out;
  EXPECT_EQ(run({"show", file, "--metric", "theta_seed"}).exit_code, 0);
  EXPECT_EQ(run({"measure", model, "-o", file}).exit_code, 78) << "a run without samples";
  EXPECT_EQ(
      run({"organ", "measure", model, "-o", folder_.file("f.h5"), "--mode", "fast"}).exit_code, 64);
  EXPECT_EQ(run({"organ", "measure", model, model, "-o", folder_.file("f.h5")}).exit_code, 64);
}

TEST_F(OrganMeasure, AMergedFileIsReported) {
  const std::string model = built(folder_.file("tiny.gguf"));
  for (const char* share : {"0/2", "1/2"}) {
    (void)organ_measured(model, "merged.h5", {"--worker", share});
  }
  const std::string merged = folder_.file("merged.h5");
  must({"merge", merged + ".parts", "-o", merged});
  (void)organ_measured(model, "merged.h5", {"--report", folder_.file("reports")});
  EXPECT_EQ(json(folder_.file("reports/tiny.measure.json"))["tensors_measured"], 6);
}

TEST_F(OrganMeasure, AFleetIsRankedAndAFailureIsARow) {
  std::filesystem::create_directories(folder_.file("fleet/deep"));
  (void)built(folder_.file("fleet/tiny.gguf"));
  (void)built(folder_.file("fleet/deep/tiny.gguf"), 100);
  std::ofstream(folder_.file("fleet/broken.gguf")) << "GGUF and nothing more";
  const std::string out = folder_.file("out");
  const ProgramResult result =
      run({"organ", "measure", "--fleet", folder_.file("fleet"), "-o", out});
  EXPECT_EQ(result.exit_code, 65) << result.err;
  const Json ranking = json(out + "/z_measure_report.json");
  ASSERT_EQ(ranking["ranking"].size(), 2U);
  EXPECT_GE(ranking["ranking"][0]["theta"].get<double>(),
            ranking["ranking"][1]["theta"].get<double>());
  ASSERT_EQ(ranking["failed"].size(), 1U);
  EXPECT_EQ(ranking["failed"][0]["model"], "broken");
  EXPECT_FALSE(ranking["failed"][0]["reason"].get<std::string>().empty());
  EXPECT_TRUE(std::filesystem::exists(out + "/deep-tiny.h5"));
  EXPECT_NE(file_text(out + "/report.md").find("broken"), std::string::npos);
}

TEST_F(OrganMeasure, ALostTensorOfASplitSetIsRefused) {
  const auto split = [&](int number, std::vector<FloatTensor> tensors) {
    write_gguf(folder_.file("m-0000" + std::to_string(number + 1) + "-of-00002.gguf"), tensors,
               [&](GgufBuilder& file) {
                 if (number == 0) {
                   file.key_string("general.architecture", "llama");
                 }
                 file.key_u16("split.no", static_cast<std::uint16_t>(number))
                     .key_u16("split.count", 2)
                     .key_i32("split.tensors.count", 3);
               });
  };
  split(0, {noise_tensor("blk.0.attn_q.weight", {16, 16}, 1)});
  split(1, {noise_tensor("blk.0.attn_k.weight", {16, 16}, 2)});
  const std::string first = folder_.file("m-00001-of-00002.gguf");
  EXPECT_EQ(run({"organ", "measure", first, "-o", folder_.file("out")}).exit_code, 65);
  split(1, {noise_tensor("blk.0.attn_k.weight", {16, 16}, 2),
            noise_tensor("blk.0.attn_norm.weight", {16}, 3)});
  const std::string out = organ_measured(first, "out");
  EXPECT_EQ(json(out + "/m.measure.json")["tensors_total"], 3);
}

TEST_F(OrganMeasure, SplitAndWholeModelsOfTheSharedData) {
  const std::string split = data_ + "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf";
  const std::string whole = data_ + "/gguf/full/stories260K-Q4_K_M.gguf";
  VINDEX_NEEDS(split);
  VINDEX_NEEDS(whole);
  for (const auto& [path, name] :
       {std::pair{split, "kjv-moe-Q8_0"}, {whole, "stories260K-Q4_K_M"}}) {
    const std::string out = organ_measured(path, "out");
    const Json report = json(out + "/" + name + ".measure.json");
    EXPECT_EQ(report["tensors_total"].get<std::size_t>(),
              report["tensors"].size() + report["unmeasured"].size());
    EXPECT_GT(report["groups"]["skeleton"]["theta"]["pmean"].get<double>(), 5.0)
        << "trained weights";
    for (const Json& one : report["tensors"]) {
      if (one.contains("theta") && one["theta"].is_number()) {
        EXPECT_LE(one["theta"].get<double>(), 90.0);
        EXPECT_GE(one["rank_edge"].get<double>(), one["rank_gd"].get<double>()) << one["name"];
      }
    }
  }
}

}  // namespace
}  // namespace vindex::testing::organ_measure_cli_test
