// The main job through the program: synthetic models of every layout, resume, kills, budgets,
// workers.
#include "commands/spectra/expected_time.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

namespace vindex::testing::measure_cli_test {
namespace {

class MeasureCliTest : public ProgramTest {
 protected:
  nlohmann::json status(const std::string& path) {
    const ProgramResult result = run({"status", path, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }
  std::string mini(const std::string& kind = "kimi-k2-mini") {
    must({"synth", kind, "-o", folder_.file(kind)});
    return folder_.file(kind);
  }
};

TEST_F(MeasureCliTest, EveryLayoutIsMeasuredWholeAndValid) {
  for (const char* kind :
       {"kimi-k2-mini", "kimi-k2-mini-int4", "kimi-k2-mini-bf16", "kimi-k2-mini-q8_0"}) {
    const std::string model = mini(kind);
    const std::string out = folder_.file(std::string(kind) + ".h5");
    must({"measure", model, "-o", out});
    must({"validate", out});
    const auto state = status(out);
    EXPECT_EQ(state["state"], "complete") << kind;
    EXPECT_GT(state["matrices_total"], 100) << kind;
    EXPECT_EQ(state["failed"], 0) << kind;
    EXPECT_FALSE(std::filesystem::exists(out + ".parts")) << kind;
  }
}

TEST_F(MeasureCliTest, NamesOfDotsAndConfigurationsOfPythonAreMeasured) {
  std::filesystem::create_directory(folder_.file("odd"));
  write_safetensors(folder_.file("odd/model.safetensors"),
                    {noise_tensor(".weight", {6, 4}, 1), noise_tensor("a..weight", {6, 4}, 2),
                     noise_tensor("x.", {6, 4}, 3)});
  folder_.write("odd/config.json", R"({"model_type": "nemotron_h", "num_hidden_layers": 2,
      "time_step_limit": [0.0, Infinity], "time_step_floor": -Infinity, "odd": NaN})");
  const std::string table = csv(measured(folder_.file("odd"), "odd"));
  for (const char* role : {",.weight,", ",a..weight,", ",x.,"}) {
    EXPECT_NE(table.find(role), std::string::npos) << role << table;
  }
}

// Names are stored as they are printed; two that are printed alike would be one row.
TEST_F(MeasureCliTest, WhatARowCannotHoldIsRefusedBeforeAnythingIsMeasured) {
  const std::string model = folder_.file("alike.safetensors");
  write_safetensors(model,
                    {noise_tensor("a\\u0001b", {6, 4}, 1), noise_tensor("a\\\\x01b", {6, 4}, 2)});
  const std::string out = folder_.file("alike.h5");
  const ProgramResult result = run({"measure", model, "-o", out, "--progress", "none"});
  EXPECT_EQ(result.exit_code, 65) << result.err;
  EXPECT_NE(result.err.find("E-MODEL-TENSOR-NAME"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".parts"));
}

TEST_F(MeasureCliTest, EveryWayOfReadingGivesTheSameTableAndIsSaid) {
  must({"synth", "layer:6x768x512:fp8", "-o", folder_.file("layer")});
  std::string first;
  for (const char* way : {"auto", "direct", "buffered"}) {
    const std::string out = folder_.file(std::string(way) + ".h5");
    const ProgramResult result = run(
        {"measure", folder_.file("layer"), "-o", out, "--read", way, "--read-depth", "3", "-v"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("read 2.36 MB at "), std::string::npos) << result.out;
    const std::string table = csv(out);
    EXPECT_EQ(table, first.empty() ? table : first) << way;
    first = table;
  }
}

/// The table by column name; rows as text.
std::map<std::string, std::vector<std::string>> columns_of(const std::string& csv) {
  const auto split = [](const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) {
      fields.push_back(field);
    }
    return fields;
  };
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = split(line);
  std::map<std::string, std::vector<std::string>> table;
  while (std::getline(lines, line)) {
    std::vector<std::string> fields = split(line);
    fields.resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      table[names[i]].push_back(fields[i]);
    }
  }
  return table;
}

TEST_F(MeasureCliTest, SignFlipsAreDrawnStoredResumedAndMerged) {
  const std::string model = mini();
  const std::vector<std::string> selection = {"--layers", "1", "--blocks", "router,shared_expert"};
  const auto measured = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.begin(), {"measure", model, "-o", folder_.file(name)});
    more.insert(more.end(), selection.begin(), selection.end());
    return more;
  };
  must(measured("one.h5", {"--null", "signflip"}));
  must(measured("four.h5", {"--null", "signflip=4"}));
  must({"validate", folder_.file("one.h5")});
  must({"validate", folder_.file("four.h5")});
  const auto one = columns_of(csv(folder_.file("one.h5")));
  const auto four = columns_of(csv(folder_.file("four.h5")));
  EXPECT_TRUE(one.contains("rand_distance_signflip"));
  EXPECT_FALSE(one.contains("stable_rank_signflip_mean")) << "one draw has no spread";
  EXPECT_EQ(one.size() + 4 * (9 + 3), four.size());
  for (const auto& [name, values] : one) {
    EXPECT_EQ(values, four.at(name)) << name << ": draw 0 is the only draw's";
  }
  for (const char* metric : {"var_at_8", "stable_rank", "effective_rank"}) {
    for (std::size_t row = 0; row < four.at("role").size(); ++row) {
      const auto number = [&](const std::string& name) {
        return std::strtod(four.at(name).at(row).c_str(), nullptr);
      };
      const std::string prefix = std::string(metric) + "_signflip_";
      // Of three degrees of freedom, as the formula has it (Abramowitz and Stegun 26.7.3).
      const double angle = std::atan(std::abs(number(prefix + "z")) / std::sqrt(3.0));
      EXPECT_NEAR(number(prefix + "p"),
                  1.0 - 2.0 / std::acos(-1.0) * (angle + std::sin(angle) * std::cos(angle)), 1e-9);
      EXPECT_GT(number(prefix + "std"), 0.0);
      EXPECT_NEAR(number(prefix + "z"),
                  (number(metric) - number(prefix + "mean")) /
                      (number(prefix + "std") * std::sqrt(1.0 + 1.0 / 4.0)),
                  1e-6 * (1.0 + std::abs(number(prefix + "z"))));
    }
  }
  for (const char* worker : {"0/2", "1/2"}) {
    must(measured("split.h5", {"--null", "signflip=4", "--worker", worker}));
  }
  must({"merge", folder_.file("split.h5.parts"), "-o", folder_.file("split.h5")});
  must({"validate", folder_.file("split.h5")});
  EXPECT_EQ(csv(folder_.file("split.h5")), csv(folder_.file("four.h5")));
  // A selection that grows keeps the rows of the earlier file.
  must({"measure", model, "-o", folder_.file("grown.h5"), "--null", "signflip=4", "--layers", "1",
        "--blocks", "router"});
  must(measured("grown.h5", {"--null", "signflip=4"}));
  EXPECT_EQ(csv(folder_.file("grown.h5")), csv(folder_.file("four.h5")));
  const ProgramResult other = run(measured("four.h5", {"--null", "signflip=5"}));
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_NE(other.err.find("null was 'signflip=4', now 'signflip=5'"), std::string::npos)
      << other.err;
}

TEST_F(MeasureCliTest, OnlyWholeNumbersOfSignFlipsAreDrawn) {
  for (const char* text : {"signflip=0", "signflip=1001", "signflip=", "signflip=3x", "flip"}) {
    const ProgramResult refused =
        run({"measure", "nowhere", "-o", folder_.file("out.h5"), "--null", text});
    EXPECT_EQ(refused.exit_code, 64) << text;
    EXPECT_NE(refused.err.find("signflip=R"), std::string::npos) << refused.err;
  }
}

TEST_F(MeasureCliTest, FewSignFlipsAreAWarning) {
  const std::string model = mini();
  const auto error_of = [&](const char* null, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"measure", model, "-o", folder_.file("out.h5"), "--restart", "--null", null,
                 "--layers", "1", "--blocks", "router", "--progress", "none"});
    const ProgramResult result = run(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const std::string warning = "warning W-NULL-DRAWS: z and p of ";
  for (const char* null : {"signflip=2", "signflip=9"}) {
    const std::string error = error_of(null);
    const std::size_t at = error.find(warning);
    ASSERT_NE(at, std::string::npos) << error;
    EXPECT_EQ(error.find(warning, at + 1), std::string::npos) << "once: " << error;
    EXPECT_LE(error.find('\n', at) - at, 80U) << error;
    EXPECT_NE(error.find("; use 10 or more\n"), std::string::npos) << error;
    EXPECT_EQ(error_of(null, {"-q"}).find("W-NULL-DRAWS"), std::string::npos);
  }
  for (const char* null : {"none", "signflip", "signflip=10"}) {
    EXPECT_EQ(error_of(null).find("W-NULL-DRAWS"), std::string::npos) << null;
  }
}

TEST_F(MeasureCliTest, APlanCountsTheDrawsOfTheSignFlipNull) {
  must({"synth", "layer:4x768x512:fp8", "-o", folder_.file("layer")});
  const auto seconds = [&](const char* null) {
    const ProgramResult plan = run({"plan", folder_.file("layer"), "--json", "--null", null});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    return nlohmann::json::parse(plan.out)["expected_seconds"].get<double>();
  };
  EXPECT_GT(seconds("signflip=1000"), 20.0 * seconds("signflip"));
}

TEST_F(MeasureCliTest, PlanTouchesNoWeightsAndSpeaksJson) {
  const std::string model = mini();
  const ProgramResult plan = run({"plan", model, "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const auto document = nlohmann::json::parse(plan.out);
  EXPECT_EQ(document["schema"], "vindex-plan/1");
  EXPECT_GT(document["least_ram_bytes"], 0);
  EXPECT_LE(document["least_ram_bytes"], document["ram_bytes"]);
  must({"measure", model, "-o", folder_.file("out.h5"), "--ram-budget",
        std::to_string(document["least_ram_bytes"].get<std::uint64_t>())});
}

TEST_F(MeasureCliTest, ADryRunTriesFilesAndOutputAndLeavesNothing) {
  const std::string model = mini();
  const std::string out = folder_.file("dry/out.h5");
  EXPECT_EQ(run({"measure", model, "-o", out, "--dry-run"}).exit_code, 73);  // no such folder
  std::filesystem::create_directory(folder_.file("dry"));
  const ProgramResult result = run({"measure", model, "-o", out, "--dry-run", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["schema"], "vindex-plan/1");
  EXPECT_GT(document["dry_run"]["files_read"], 1);
  EXPECT_GT(document["dry_run"]["sample_bytes"], 0);
  EXPECT_GE(document["disk_bytes"], document["output_bytes"]);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file("dry")));

  // Headers alone show nothing of a file that lost its end: the plan is made, the run would fail.
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") {
      const auto bytes = std::filesystem::file_size(entry);
      std::filesystem::permissions(entry, std::filesystem::perms::owner_all);
      std::filesystem::resize_file(entry, bytes - 1);
      break;
    }
  }
  const ProgramResult refused = run({"measure", model, "-o", out, "--dry-run"});
  EXPECT_EQ(refused.exit_code, 65) << refused.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file("dry")));
}

TEST_F(MeasureCliTest, ATruncatedShardFailsItsRowsOnlyAndTheExitCodeSaysSo) {
  must({"synth", "layer:4x256x128:bf16", "-o", folder_.file("layer")});
  // A companion that is gone is the same kind of trouble as bytes that are gone: one row, exit 65.
  const std::string model = mini();
  const std::string out = folder_.file("out.h5");
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") {
      shard = entry.path();
    }
  }
  ASSERT_FALSE(shard.empty());
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const ProgramResult refused = run({"measure", model, "-o", out});
  EXPECT_EQ(refused.exit_code, 65)
      << refused.err;  // the container itself is malformed: refused whole
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(MeasureCliTest, TheOutputIsNeverAFolderOrAnInput) {
  const std::string model = mini();
  EXPECT_EQ(run({"measure", model, "-o", folder_.path().string()}).exit_code, 73);
  const std::string input = model + "/config.json";
  EXPECT_NE(run({"measure", model, "-o", input}).exit_code, 0);
  EXPECT_EQ(file_text(input).front(), '{');
}

TEST_F(MeasureCliTest, AConfigurationFileEqualsFlags) {
  const std::string model = mini();
  std::ofstream(folder_.file("flags.toml"))
      << "mode=\"strict\"\nblocks=\"router\"\nno-spectra=true\n";
  must({"measure", model, "-o", folder_.file("file.h5"), "--config", folder_.file("flags.toml")});
  must({"measure", model, "-o", folder_.file("flags.h5"), "--mode", "strict", "--blocks", "router",
        "--no-spectra"});
  EXPECT_EQ(status(folder_.file("file.h5"))["matrices_total"], 3);
  EXPECT_EQ(csv(folder_.file("file.h5")), csv(folder_.file("flags.h5")));
  EXPECT_NE(csv(folder_.file("file.h5")).find("gram64"), std::string::npos);
  // The command line outranks the file.
  must({"measure", model, "-o", folder_.file("both.h5"), "--config", folder_.file("flags.toml"),
        "--mode", "default"});
  EXPECT_NE(csv(folder_.file("both.h5")).find("gram64+"), std::string::npos);
  EXPECT_EQ(csv(folder_.file("file.h5")).find("gram32"), std::string::npos);
  EXPECT_EQ(run({"measure", model, "-o", folder_.file("file.h5"), "--config",
                 folder_.file("flags.toml"), "--mode", "default"})
                .exit_code,
            78)
      << "the finished file is of another mode";
}

// `plan` makes a matrix to find out how fast the machine is: of 2 x 2^28 weights it took half a
// minute and 2 GB.
TEST(ExampleShapeTest, IsNoLongerThanAMeasurementNeeds) {
  const auto weights = [](const commands::ExampleShape& shape) { return shape.rows * shape.cols; };
  const commands::ExampleShape thin = commands::example_shape(2, std::int64_t{1} << 28, 1.0);
  EXPECT_EQ(thin.rows, 2);
  EXPECT_EQ(thin.cols, std::int64_t{1} << 24);
  const commands::ExampleShape tall = commands::example_shape(std::int64_t{1} << 40, 1, 1.0);
  EXPECT_EQ(tall.cols, 1);
  EXPECT_LE(weights(tall), std::int64_t{1} << 25);
  EXPECT_EQ(commands::example_shape(1 << 14, 1 << 14, 0.5).rows, 1 << 13);
  const commands::ExampleShape usual = commands::example_shape(7168, 2048, 1.0);
  EXPECT_EQ(usual.rows, 7168);
  EXPECT_EQ(usual.cols, 2048);
}

}  // namespace
}  // namespace vindex::testing::measure_cli_test
