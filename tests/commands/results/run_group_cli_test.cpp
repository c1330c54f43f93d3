// What /run/ of every kind of results file says: who asked, with which settings, of which files,
// and by what it was computed.
#include "tests/support/environment_variable.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace vindex::testing::run_group_cli_test {
namespace {

using nlohmann::json;

class RunGroupCliTest : public ProgramTest {
 protected:
  void SetUp() override {
    must({"synth", "layer:2x256x128:bf16", "-o", model_, "-q"});
    std::filesystem::create_directory(dump_);
    for (const char* const name : {"hidden.0", "hidden.1", "mlp.0", "router_logits.0"}) {
      write(name, npy_array(values(name), {kTokens, kWidth}));
    }
    write("token_ids", npy_array(std::vector<std::int64_t>(kTokens, 7), {kTokens}));
  }
  /// The file that the command and the flags of `arguments` write.
  std::string written(std::vector<std::string> arguments) {
    const std::string out = folder_.file(std::to_string(files_++) + ".h5");
    arguments.insert(arguments.end(), {"-o", out, "--progress", "none", "--backend", "cpu"});
    if (arguments.front() == "routing") {
      arguments.resize(arguments.size() - 2);
    }
    must(arguments);
    must({"validate", out});
    return out;
  }
  static json run_group(const std::string& file, const std::string& name) {
    return json::parse(read_strings(file, "run/" + name).at(0));
  }

  const std::string model_ = folder_.file("model");
  const std::string dump_ = folder_.file("dump");

 private:
  static constexpr std::int64_t kTokens = 24, kWidth = 8;
  static std::vector<float> values(const std::string& name) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < kTokens * kWidth; ++i) {
      values.push_back(std::sin(static_cast<float>(i * i) + static_cast<float>(name.size())));
    }
    return values;
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(dump_ + "/" + name + ".npy", std::ios::binary) << bytes;
  }
  int files_ = 0;
};

/// A kind of file, how it is made, what it was made of, and whether a back end computed it.
struct Kind {
  std::vector<std::string> arguments;
  std::vector<std::string> inputs;  ///< names in /run/inputs; none: it is the list itself
  bool has_back_end = true;
};

void expect_files(const json& files) {
  ASSERT_TRUE(files.is_array()) << files;
  ASSERT_FALSE(files.empty());
  for (const json& file : files) {
    EXPECT_FALSE(file.at("path").get<std::string>().empty());
    EXPECT_GT(file.at("bytes").get<std::int64_t>(), 0);
    EXPECT_FALSE(file.at("version").get<std::string>().empty());
    EXPECT_EQ(file.at("header_sha256").get<std::string>().size(), 64U);
  }
}

void expect_environment(const json& environment, bool has_back_end) {
  EXPECT_EQ(environment.at("program"), "vindex");
  for (const char* const name : {"version", "commit", "compiler"}) {
    EXPECT_FALSE(environment.at(name).get<std::string>().empty()) << name;
  }
  EXPECT_FALSE(environment.at("reading").at("engine").get<std::string>().empty());
  EXPECT_EQ(environment.at("unset_variables"), json{"NVIDIA_TF32_OVERRIDE=1"});
  ASSERT_EQ(environment.at("back_ends").size(), 1U);
  const json& one = environment.at("back_ends").at(0);
  EXPECT_EQ(one.at("backend"), "cpu");
  EXPECT_GE(one.at("concurrent_calls").get<int>(), 1);
  if (has_back_end) {
    EXPECT_FALSE(one.at("device").get<std::string>().empty());
    const auto libraries = one.at("libraries").get<std::vector<std::string>>();
    EXPECT_TRUE(std::any_of(libraries.begin(), libraries.end(), [](const std::string& library) {
      return library.starts_with("OpenBLAS ") &&
             std::count(library.begin(), library.end(), ' ') > 1;
    })) << one;
    EXPECT_TRUE(one.at("self_tests").is_array()) << one;
    EXPECT_TRUE(one.at("notes").is_array()) << one;
  }
}

TEST_F(RunGroupCliTest, SaysOfEveryKindOfFileWhereItComesFrom) {
  const EnvironmentVariable rough("NVIDIA_TF32_OVERRIDE", "1");
  const std::vector<Kind> kinds = {
      {{"measure", model_}, {}},
      {{"compare", model_, model_, "--delta"}, {"a", "b"}},
      {{"experts", model_}, {}},
      {{"cka", dump_, dump_}, {"a", "b"}},
      {{"activations", dump_, "--model", model_}, {"dump", "model"}},
      {{"routing", dump_, "--top-k", "2", "--scoring", "softmax"}, {"dump"}, false},
  };
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.arguments.front());
    const std::string file = written(kind.arguments);
    if (HasFatalFailure()) {
      return;
    }
    const json command = run_group(file, "command");
    EXPECT_NE(command.at("argv").get<std::string>().find(" " + kind.arguments.front() + " "),
              std::string::npos)
        << command;
    EXPECT_EQ(command.at("started").get<std::string>().size(), 20U) << command;
    const json settings = run_group(file, "settings");
    EXPECT_EQ(settings.at("threads"), 0);
    EXPECT_GT(settings.at("ram_budget_bytes").get<std::int64_t>(), 0);
    EXPECT_FALSE(settings.at("ram_budget_source").get<std::string>().empty());
    EXPECT_EQ(settings.at("worker"), (json{0, 1}));
    const json inputs = run_group(file, "inputs");
    EXPECT_EQ(inputs.is_object() ? inputs.size() : 0U, kind.inputs.size()) << inputs;
    for (const std::string& side : kind.inputs) {
      expect_files(inputs.at(side));
    }
    if (kind.inputs.empty()) {
      expect_files(inputs);
    }
    expect_environment(run_group(file, "environment"), kind.has_back_end);
    EXPECT_TRUE(run_group(file, "config").is_object());
  }
}

}  // namespace
}  // namespace vindex::testing::run_group_cli_test
