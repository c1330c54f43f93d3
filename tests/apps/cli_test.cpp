// The command line as a contract: streams, exit codes, help, refusals.
#include "tests/support/file_content.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace vindex::testing::cli_test {
namespace {

class CliTest : public ProgramTest {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
};

TEST_F(CliTest, HelpStartsWithExamplesAndGoesToStandardOutput) {
  const ProgramResult list = run({"--help"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_EQ(list.err, "");
  for (const auto& [command, unused] : commands_of_program()) {
    std::vector<std::string> words = words_of(command);
    words.emplace_back("--help");
    const ProgramResult help = run(words);
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_EQ(help.err, "");
    EXPECT_LT(help.out.find("Example"), help.out.find("Options:")) << command;
  }
}

// A device whose newer kernel breaks it is used without that one by such a word, which errors name.
TEST_F(CliTest, HelpOfMeasureHasEveryWordOfARoute) {
  const std::string help = run({"measure", "--help"}).out;
  for (const char* word :
       {"auto", "library", "qr", "proof", "two-stage", "+gram-mma", "+gram-wgmma", "+gram-clusters",
        "+band-plain", "+band-tensor", "+kernels-former"}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
}

TEST_F(CliTest, VersionNamesProgramCommitAndCompiler) {
  const ProgramResult version = run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("vindex 0.", 0), 0U);
}

/// What programs check options by has every option of the help, and says what it takes.
TEST_F(CliTest, CommandsAreDescribedForProgramsAsTheHelpHasThem) {
  const auto document = nlohmann::json::parse(run({"commands", "--json"}).out);
  EXPECT_EQ(document["schema"], "vindex-commands/1");
  EXPECT_EQ(run({"--version"}).out.rfind("vindex " + document["version"].get<std::string>(), 0),
            0U);
  const std::set<std::string> kinds = {"value",  "input",   "results", "parts",  "direction",
                                       "budget", "devices", "share",   "output", "caller"};
  for (const auto& [name, command] : document["commands"].items()) {
    std::vector<std::string> words = words_of(name);
    words.emplace_back("--help");
    const std::string help = run(words).out;
    EXPECT_FALSE(command["description"].get<std::string>().empty()) << name;
    std::size_t described_count = 0;
    for (const auto& option : command["options"]) {
      const auto long_name = option["name"].get<std::string>();
      EXPECT_TRUE(kinds.contains(option["kind"])) << name << long_name;
      EXPECT_EQ(option["kind"] == "output", !option.value("file", "").empty()) << name << long_name;
      if (long_name != "--quiet" &&
          long_name != "--verbose") {  // of the program: the list of commands has it
        EXPECT_NE(help.find(long_name), std::string::npos) << name << long_name;
        ++described_count;
      }
    }
    // Lines of the help that begin with an option, but for --help itself.
    std::size_t listed_count = 0;
    std::istringstream lines(help.substr(std::min(help.find("Options:"), help.size())));
    for (std::string line; std::getline(lines, line);) {
      listed_count += line.starts_with("  -") && !line.starts_with("  -h,--help") ? 1 : 0;
    }
    EXPECT_EQ(described_count, listed_count) << name;
  }
  const auto& measure = document["commands"]["measure"];
  EXPECT_EQ(measure["positionals"][0]["name"], "MODEL");
  const auto mode = std::find_if(measure["options"].begin(), measure["options"].end(),
                                 [](const auto& option) { return option["name"] == "--mode"; });
  ASSERT_NE(mode, measure["options"].end());
  EXPECT_EQ((*mode)["choices"], nlohmann::json({"fast", "default", "strict"}));
  EXPECT_EQ((*mode)["type"], "text");
  EXPECT_EQ((*mode)["kind"], "value");
  EXPECT_EQ((*mode)["default"], "default");
}

TEST_F(CliTest, UsageErrorsAreOneLineAnd64) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"frobnicate"},
           {"organ"},
           {"edit", "-q"},
           {"measure"},
           {"measure", "x"},
           {"measure", "x", "-o", "y", "--mode", "sloppy"},
           {"measure", "x", "-o", "y", "--worker", "2/2"},
           {"measure", "x", "-o", "y", "--layers", "a"},
           {"measure", "x", "-o", "y", "--ram-budget", "8 apples"},
           {"synth", "no-such-model", "-o", folder_.file("z")}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
  }
}

TEST_F(CliTest, AnUnknownCommandIsNamedAndTheNearestOneProposed) {
  struct Case {
    std::vector<std::string> arguments;
    std::string line;
  };
  const std::string lists = "` lists the commands\n";
  for (const Case& each : std::vector<Case>{
           {{"benhc", "--sections", "decode"},
            "unknown command 'benhc'; did you mean 'bench'? `vindex --help" + lists},
           {{"-q", "benhc"},
            "unknown command 'benhc'; did you mean 'bench'? `vindex --help" + lists},
           {{"measuer", "x"},
            "unknown command 'measuer'; did you mean 'measure'? `vindex --help" + lists},
           {{"frobnicate"}, "unknown command 'frobnicate'; `vindex --help" + lists},
           {{"organ", "extarct", "x"},
            "unknown command 'organ extarct'; did you mean 'organ extract'? `vindex organ --help" +
                lists},
           {{"edit", "delet"},
            "unknown command 'edit delet'; did you mean 'edit delete'? `vindex edit --help" +
                lists},
           {{"edit"}, "no command given; `vindex edit --help" + lists}}) {
    const ProgramResult result = run(each.arguments);
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "vindex: E-USAGE: " + each.line);
  }
}

/// The command that a line of the program's help names, behind the column of groups.
std::string command_in(const std::string& line) {
  constexpr std::size_t kColumn = 9;
  const bool is_command = line.size() > kColumn && line[kColumn - 1] == ' ' &&
                          line[kColumn] != ' ' && line.find("  ", kColumn) != std::string::npos;
  return is_command ? line.substr(kColumn, line.find(' ', kColumn) - kColumn) : "";
}

TEST_F(CliTest, TheListOfCommandsFitsOneScreen) {
  const ProgramResult help = run({"--help"});
  const std::vector<std::string> lines = lines_of(help.out);
  EXPECT_LE(lines.size(), 24U) << help.out;
  std::vector<std::string> commands;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 80U) << line;
    if (const std::string command = command_in(line); !command.empty()) {
      commands.push_back(command);
    }
  }
  std::set<std::string> described = {};
  for (const auto& [name, unused] : commands_of_program()) {
    described.insert(words_of(name).front());
  }
  described.erase("commands");  // a question about the list itself
  EXPECT_EQ(std::set<std::string>(commands.begin(), commands.end()), described);
  EXPECT_EQ(commands.size(), described.size());
  // Without a command the same list, and with the line that says so still one screen.
  const ProgramResult none = run({});
  EXPECT_EQ(none.exit_code, 64);
  EXPECT_EQ(none.out, help.out);
  EXPECT_LE(lines.size() + 1, 24U);
  EXPECT_EQ(none.err, "vindex: E-USAGE: no command given; `vindex COMMAND --help` says more\n");
}

TEST_F(CliTest, HelpOfEveryCommandFits80Columns) {
  std::set<std::vector<std::string>> commands;
  for (const auto& [name, unused] : commands_of_program()) {
    commands.insert(words_of(name));
    commands.insert({words_of(name).front()});
  }
  EXPECT_GT(commands.size(), 30U);
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    const ProgramResult help = run(command);
    EXPECT_EQ(help.exit_code, 0);
    for (const std::string& line : lines_of(help.out)) {
      EXPECT_LE(line.size(), 80U) << command.front() << ": " << line;
    }
  }
}

TEST_F(CliTest, AConfigurationThatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  const std::string folder = folder_.path().string();
  for (const std::string& path : {folder_.file("pipe"), std::string("/dev/zero"), folder}) {
    const ProgramResult result = run({"inspect", "x", "--config", path});
    EXPECT_EQ(result.exit_code, 66) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-FILE-KIND: ", 0), 0U) << result.err;
  }
  const std::string large = write("large", std::string(2'000'000, '\n'));
  EXPECT_EQ(run({"inspect", "x", "--config", large}).exit_code, 64);
}

TEST_F(CliTest, DecodeDoesNotReplaceItsOwnInput) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string text =
      std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
  const std::string model = write("m.safetensors", text + std::string(16, '\0'));
  std::filesystem::create_symlink("m.safetensors", folder_.file("link"));
  std::filesystem::create_hard_link(model, folder_.file("hard"));
  for (const std::string& target : {model, folder_.file("link"), folder_.file("hard")}) {
    const ProgramResult result = run({"decode", model, "--tensor", "a", "-o", target});
    EXPECT_EQ(result.exit_code, 73) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-OUTPUT: ", 0), 0U) << result.err;
    EXPECT_EQ(file_text(model), text + std::string(16, '\0'));
  }
}

// What an unset variable leaves: `--worker "$INDEX"` would do the work of every task.
TEST_F(CliTest, AnEmptyValueOfAFlagIsRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string model =
      write("m.safetensors", std::string(1, static_cast<char>(header.size())) +
                                 std::string(7, '\0') + header + std::string(16, '\0'));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"decode", model, "--tensor", "a", "-o", ""},
           {"measure", model, "-o", folder_.file("o.h5"), "--worker", ""},
           {"measure", model, "-o", folder_.file("o.h5"), "--worker="},
           {"measure", model, "-o", folder_.file("o.h5"), "--tensors", ""},
           {"organ", "purify", model, "-o", ""}}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 64) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-USAGE: ", 0), 0U) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.file("o.h5")));
}

TEST_F(CliTest, WeightsThatAreNotFiniteAreAWarning) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string model = write(
      "m.safetensors", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                           header + std::string(12, '\0') + std::string(4, '\xFF'));
  const ProgramResult result =
      run({"measure", model, "-o", folder_.file("o.h5"), "--backend", "cpu", "--progress", "none"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning W-NOT-FINITE: 1 of 1 "), std::string::npos) << result.err;
}

TEST_F(CliTest, RefusalsAreQuickSmallAndLeaveNothing) {
  const std::string fifo = folder_.file("fifo.gguf");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.file("empty"));
  struct Case {
    std::string model;
    int exit_code;
  };
  const std::vector<Case> cases = {
      {folder_.file("absent"), 66},
      {folder_.file("empty"), 66},
      {fifo, 66},
      {"/dev/zero", 66},
      {write("magic.gguf", "GGUF"), 65},
      {write("page.safetensors", "<!DOCTYPE html><html>"), 65},
      {write("pointer.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
       65},
      {write("lie.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), 65},
  };
  const long baseline = run({"--version"}).peak_kib;
  for (const Case& refused : cases) {
    for (const std::string command : {"inspect", "measure"}) {
      std::vector<std::string> arguments = {command, refused.model};
      if (command == "measure") {
        arguments.insert(arguments.end(), {"-o", folder_.file("out.h5")});
      }
      const ProgramResult result = run(arguments);
      EXPECT_EQ(result.exit_code, refused.exit_code) << refused.model << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
      EXPECT_LT(result.peak_kib, baseline + 200 * 1024);
      EXPECT_LT(result.cpu_seconds, VINDEX_SANITIZED ? 20.0 : 2.0);
      EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
      EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5.parts")));
    }
  }
}

/// A header of about `bytes` whose entries are empty tensors named from `first` on, the last again
/// if `repeats`.
std::string header_of(std::size_t bytes, std::size_t first, bool repeats) {
  const auto entry = [](std::size_t number) {
    std::string digits = std::to_string(number);
    digits.insert(0, 60 - digits.size(), '0');
    return "\"" + digits + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  };
  std::string header(1, '{');
  std::size_t number = first;
  while (header.size() < bytes) {
    header.append(entry(number++)).push_back(',');
  }
  header.append(entry(repeats ? number - 1 : number)).push_back('}');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i));
  }
  return length + header;
}

// Headers are read side by side: several hostile ones must take no more than one, and the first is
// the one that is named.
TEST_F(CliTest, SeveralHostileShardsAreRefusedInTheMemoryOfOne) {
  const long baseline = run({"--version"}).peak_kib;
  const auto shard = [](int number, int count) {
    char name[40];
    std::snprintf(name, sizeof(name), "m-%05d-of-%05d.safetensors", number, count);
    return std::string(name);
  };
  struct Case {
    int count;
    std::size_t first_bytes, other_bytes;
    bool others_are_bad;
  };
  for (const Case& hostile :
       {Case{2, 64U << 20U, 64U << 20U, true}, Case{9, 20U << 20U, 3U << 20U, false}}) {
    const std::string folder = folder_.file("hostile" + std::to_string(hostile.count));
    std::filesystem::create_directory(folder);
    for (int i = 1; i <= hostile.count; ++i) {
      std::ofstream(folder + "/" + shard(i, hostile.count), std::ios::binary)
          << header_of(i == 1 ? hostile.first_bytes : hostile.other_bytes,
                       static_cast<std::size_t>(i) * 10'000'000, i == 1 || hostile.others_are_bad);
    }
    const ProgramResult result = run({"inspect", folder});
    EXPECT_EQ(result.exit_code, 65);
    EXPECT_EQ(result.err.rfind("vindex: E-JSON-DUPLICATE-KEY: ", 0), 0U) << result.err;
    EXPECT_NE(result.err.find(shard(1, hostile.count)), std::string::npos) << result.err;
    if (!VINDEX_SANITIZED) {
      EXPECT_LT(result.peak_kib, baseline + 200 * 1024);
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace vindex::testing::cli_test
