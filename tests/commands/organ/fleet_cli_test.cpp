// A fleet of twelve models of three families through two commands, interrupted and resumed: taken
// apart, measured, ranked, and its law of scale found where one was planted, and not where none
// was.
#include "tests/support/file_content.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

namespace vindex::testing::fleet_cli_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr double kNoise = 0.125;  // of noise_tensor()
constexpr double kDegrees = 180.0 / 3.14159265358979323846;
constexpr std::int64_t kWidths[] = {72, 104, 152, 216};

/// Names and shapes of one block.
std::vector<FloatTensor> tensors_of(const std::string& family, std::int64_t width) {
  std::vector<FloatTensor> out = {{"token_embd.weight", {2 * width, width}, {}},
                                  {"output_norm.weight", {width}, {}},
                                  {"blk.0.attn_output.weight", {width, width}, {}}};
  if (family == "deepseek2") {
    out.push_back({"blk.0.attn_kv_a_mqa.weight", {width, width}, {}});
    out.push_back({"blk.0.attn_kv_b.weight", {2 * width, width}, {}});
  } else {
    out.push_back({"blk.0.attn_q.weight", {width, width}, {}});
    out.push_back({"blk.0.attn_v.weight", {width, width}, {}});
  }
  if (family == "llama") {
    out.push_back({"blk.0.ffn_gate.weight", {2 * width, width}, {}});
    out.push_back({"blk.0.ffn_down.weight", {width, 2 * width}, {}});
  } else {
    out.push_back({"blk.0.ffn_gate_inp.weight", {3, width}, {}});
    out.push_back({"blk.0.ffn_gate_exps.weight", {3, width, width}, {}});
    out.push_back({"blk.0.ffn_gate_shexp.weight", {width, width}, {}});
  }
  return out;
}

std::int64_t parameters_of(const std::vector<FloatTensor>& tensors) {
  std::int64_t sum = 0;
  for (const FloatTensor& tensor : tensors) {
    std::int64_t count = 1;
    for (const std::int64_t side : tensor.shape) {
      count *= side;
    }
    sum += count;
  }
  return sum;
}

class Fleet : public ProgramTest {
 protected:
  /// Twelve models; every matrix is noise and one direction, at the angle `theta(ln parameters,
  /// number)` from it.
  template <typename Theta>
  std::string make(const std::string& name, Theta theta) {
    const std::string folder = folder_.file(name);
    fs::create_directories(folder);
    unsigned seed = 0;
    int number = 0;
    for (const std::string family : {"llama", "qwen2moe", "deepseek2"}) {
      for (const std::int64_t width : kWidths) {
        std::vector<FloatTensor> tensors = tensors_of(family, width);
        const double angle =
            theta(std::log(static_cast<double>(parameters_of(tensors))), number++) / kDegrees;
        for (FloatTensor& tensor : tensors) {
          tensor = noise_tensor(tensor.name, tensor.shape, ++seed);
          for (float& value : tensor.values) {
            value += static_cast<float>(kNoise * std::tan(angle));
          }
        }
        write_gguf(folder + "/" + family + "-" + std::to_string(width) + ".gguf", tensors,
                   [&](GgufBuilder& file) {
                     file.key_string("general.architecture", family);
                     file.key_u32(family + ".block_count", 1);
                     file.key_u32(family + ".context_length", 2048);
                     if (family == "deepseek2") {
                       file.key_u32(family + ".attention.kv_lora_rank", 32);
                     }
                   });
      }
    }
    return folder;
  }
  /// Starts the command, stops it once `first` is there, and returns how it ended: 75, or 0 on a
  /// machine that was done by then.
  int interrupted(const std::vector<std::string>& arguments, const std::string& first) {
    RunningProgram program(VINDEX_PROGRAM, arguments, folder_.file("stream"));
    for (int i = 0; i < 6000 && !fs::exists(first); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(fs::exists(first));
    program.signal(SIGINT);
    return program.finish().exit_code;
  }
  Json json(const std::string& path) { return Json::parse(file_text(path)); }
  /// The law of `figure` in a ranking.
  static Json law(const Json& ranking, const std::string& figure) {
    for (const Json& one : ranking["scale_law"]["figures"]) {
      if (one["name"] == figure) {
        return one;
      }
    }
    return nullptr;
  }
};

TEST_F(Fleet, IsTakenApartMeasuredAndRankedByTwoCommands) {
  // Eight degrees for every factor e of parameters.
  const std::string models =
      make("models", [](double log_size, int) { return 35.0 + 8.0 * (log_size - 10.5); });
  const std::string organs = folder_.file("organs");
  const std::vector<std::string> extract = {"organ", "extract", "--fleet", models, "-o", organs};
  EXPECT_TRUE((std::set{0, 75}).contains(interrupted(extract, organs + "/deepseek2-104")));
  const auto first = fs::last_write_time(organs + "/deepseek2-104/manifest.json");
  must(extract);
  EXPECT_EQ(fs::last_write_time(organs + "/deepseek2-104/manifest.json"), first) << "done twice";
  const Json dissection = json(organs + "/dissection_report.json");
  ASSERT_EQ(dissection["models"].size(), 12U);
  for (const Json& model : dissection["models"]) {
    EXPECT_GT(model["seconds"].get<double>(), 0.0) << model;
    EXPECT_GT(model["mb_s"].get<double>(), 0.0) << model;
  }

  const std::string out = folder_.file("out");
  const std::vector<std::string> measure = {"organ", "measure", "--fleet", organs, "-o", out};
  EXPECT_TRUE((std::set{0, 75}).contains(interrupted(measure, out + "/deepseek2-104.h5")));
  const auto measured = fs::last_write_time(out + "/deepseek2-104.h5");
  const ProgramResult told = run(measure);
  ASSERT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(fs::last_write_time(out + "/deepseek2-104.h5"), measured) << "measured twice";
  const Json ranking = json(out + "/z_measure_report.json");
  ASSERT_EQ(ranking["ranking"].size(), 12U);
  EXPECT_EQ(ranking["ranking"][0]["model"], "deepseek2-216");

  const Json theta = law(ranking, "theta");
  for (const char* of : {"all", "within_architectures"}) {
    EXPECT_EQ(theta[of]["n"], 12) << of;
    EXPECT_NEAR(theta[of]["slope"].get<double>(), 8.0, 0.6) << of;
    EXPECT_LT(theta[of]["ci_low"].get<double>(), theta[of]["slope"].get<double>()) << of;
    EXPECT_GT(theta[of]["ci_low"].get<double>(), 5.0) << of;
    EXPECT_LT(theta[of]["p"].get<double>(), 0.001) << of;
  }
  // One direction holds more and more: fewer directions than noise has, more of them in 64.
  EXPECT_LT(law(ranking, "erank_over_null")["all"]["slope"].get<double>(), 0.0);
  EXPECT_GT(law(ranking, "var64_over_null")["all"]["slope"].get<double>(), 0.0);
  EXPECT_LT(law(ranking, "erank_over_null")["all"]["p"].get<double>(), 0.05);

  const Json groups = json(out + "/z_report_complete.json");
  EXPECT_TRUE(groups["llama-72"]["parts"].contains("dense"));
  EXPECT_FALSE(groups["llama-72"]["parts"].contains("routed"));
  for (const char* part : {"routed", "shared", "router", "skeleton", "embed"}) {
    EXPECT_TRUE(groups["qwen2moe-72"]["parts"].contains(part)) << part;
  }
  for (const Json& row : ranking["ranking"]) {
    EXPECT_EQ(row["attention"]["context_length"], 2048);
    EXPECT_EQ(row["attention"]["mla"].is_null(), row["arch"] != "deepseek2") << row;
  }
  expect_parts(told.out, {"Law of scale", "within architectures", "routed", "shared", "dense"});
  for (const std::string& line : lines_of(told.out)) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  expect_parts(file_text(out + "/report.md"),
               {"## What the models claim", "MLA 32", "## Classes of the published cards",
                "class of noise"});
}

TEST_F(Fleet, WithoutDependenceThereIsNoLaw) {
  // Angles that have nothing to do with sizes.
  constexpr double kAngles[] = {41, 35, 44, 38, 36, 45, 37, 40, 43, 36, 38, 42};
  const std::string models = make("models", [&](double, int number) { return kAngles[number]; });
  const std::string out = folder_.file("out");
  must({"-q", "organ", "measure", "--fleet", models, "-o", out});
  const Json ranking = json(out + "/z_measure_report.json");
  EXPECT_GT(law(ranking, "var64_excess")["all"]["p"].get<double>(), 0.2);
  // A ratio to a null depends on the shapes alone, which is why the excess stands beside it.
  EXPECT_LT(law(ranking, "var64_over_null")["all"]["p"].get<double>(), 0.01);
  const Json theta = law(ranking, "theta");
  for (const char* of : {"all", "within_architectures"}) {
    EXPECT_GT(theta[of]["p"].get<double>(), 0.2) << theta[of];
    EXPECT_LT(theta[of]["ci_low"].get<double>(), 0.0) << theta[of];
    EXPECT_GT(theta[of]["ci_high"].get<double>(), 0.0) << theta[of];
  }
}

TEST_F(Fleet, ShowsModelsByRoles) {
  const std::string models = make("models", [](double, int number) { return 30.0 + number; });
  std::vector<std::string> files;
  for (const char* name : {"llama-104", "qwen2moe-104"}) {
    files.push_back(folder_.file(std::string(name) + ".h5"));
    must({"-q", "measure", models + "/" + name + ".gguf", "-o", files.back()});
  }
  std::vector<std::string> show = {"show", files[0], files[1], "--metric", "stable_rank"};
  const ProgramResult told = run(show);
  ASSERT_EQ(told.exit_code, 0) << told.err;
  expect_parts(told.out, {"over its noise", "llama-104", "qwen2moe-104", "routed gate_proj"});
  for (const std::string& line : lines_of(told.out)) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  show.emplace_back("--json");
  const Json document = Json::parse(run(show).out);
  ASSERT_EQ(document["files"].size(), 2U);
  const Json& experts = document["files"][1]["roles"];
  const auto found = std::find_if(experts.begin(), experts.end(), [](const Json& role) {
    return role["block"] == "routed_expert" && role["role"] == "gate_proj";
  });
  ASSERT_NE(found, experts.end()) << document;
  EXPECT_EQ((*found)["values"], 3);
  // The same matrices, as one file shows them.
  const Json alone = Json::parse(run({"show", files[1], "--metric", "stable_rank", "--block",
                                      "routed_expert", "--role", "gate_proj", "--json"})
                                     .out);
  EXPECT_EQ((*found)["median"], alone["groups"][0]["median"]) << alone;
  EXPECT_EQ((*found)["null"], alone["groups"][0]["null"]);
  EXPECT_EQ(run({"show", files[0], files[1], "--top", "3"}).exit_code, 64);
  EXPECT_EQ(run({"show", files[0], folder_.file("absent.h5")}).exit_code, 66);
}

TEST_F(Fleet, AModelThatFailsIsARow) {
  fs::create_directory(folder_.file("models"));
  write_gguf(folder_.file("models/good.gguf"), {noise_tensor("blk.0.attn_q.weight", {16, 16}, 1)},
             [](GgufBuilder& file) { file.key_string("general.architecture", "llama"); });
  std::ofstream(folder_.file("models/broken.gguf")) << "GGUF and nothing more";
  const std::vector<std::string> extract = {
      "organ", "extract", "--fleet", folder_.file("models"), "-o", folder_.file("organs")};
  must(extract, 65);
  const Json report = json(folder_.file("organs/dissection_report.json"));
  ASSERT_EQ(report["models"].size(), 1U);
  EXPECT_EQ(report["models"][0]["model"], "good");
  ASSERT_EQ(report["failed"].size(), 1U);
  EXPECT_EQ(report["failed"][0]["model"], "broken");
  EXPECT_FALSE(fs::exists(folder_.file("organs/broken")));
  // Another file under the same name is not taken for the one that was taken apart.
  fs::remove(folder_.file("models/broken.gguf"));
  write_gguf(folder_.file("models/good.gguf"), {noise_tensor("blk.0.attn_q.weight", {16, 16}, 2)},
             [](GgufBuilder& file) { file.key_string("general.architecture", "llama"); });
  must(extract, 73);
}

}  // namespace
}  // namespace vindex::testing::fleet_cli_test
