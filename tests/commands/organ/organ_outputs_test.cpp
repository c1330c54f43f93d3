// Outputs of the commands that write models, and numbers on the command line: what is refused, with
// which exit code, and that nothing is left or lost.
#include "tests/support/file_content.hpp"
#include "tests/support/file_size_limit.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace vindex::testing::organ_outputs_test {
namespace {

namespace fs = std::filesystem;

class OrganOutputsTest : public ProgramTest {
 protected:
  void SetUp() override {
    must({"-q", "synth", "kimi-k2-mini-q8_0", "-o", folder_.file("m")});
    must({"-q", "organ", "extract", model_, "-o", organs_});
  }
  /// Every command that makes one file of a model, but for what it writes.
  std::vector<std::vector<std::string>> commands() const {
    return {{"organ", "assemble", organs_},
            {"organ", "graft", "--source", model_, "--target", organs_, "--type", "organ"},
            {"organ", "purify", model_, "--type", "ffn", "--layers", "0", "--method", "laser",
             "--rho", "0.1", "--accept-findings", "--cap", "1", "--threads", "1"}};
  }
  static std::vector<std::string> with(std::vector<std::string> command,
                                       const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  /// Ends with `code`, one line on standard error that begins with an id, and the same names as
  /// before in the folder.
  void expect_refused(const std::vector<std::string>& arguments, int code) {
    const std::vector<std::string> before = names();
    const ProgramResult result = run(with({"-q"}, arguments));
    EXPECT_EQ(result.exit_code, code) << arguments[1] << ": " << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(names(), before) << arguments[1];
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path();
      if (!path.starts_with(folder_.file("stream"))) {
        found.push_back(path);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  const std::string model_ = folder_.file("m/kimi-k2-mini-Q8_0.gguf");
  const std::string organs_ = folder_.file("organs");
};

TEST_F(OrganOutputsTest, WhatCannotBeCreatedEndsWithItsReason) {
  for (const std::vector<std::string>& command : commands()) {
    for (const std::string& output :
         {folder_.file("absent/o.gguf"), model_ + "/o.gguf",
          folder_.file(std::string(256, 'n') + ".gguf"), folder_.file("m/")}) {
      if (command[1] != "assemble" || !output.ends_with("/")) {  // there: the source's name in it
        expect_refused(with(command, {"-o", output}), 73);
      }
    }
  }
  if (::geteuid() != 0) {
    fs::create_directory(folder_.file("closed"));
    fs::permissions(folder_.file("closed"), fs::perms::owner_read | fs::perms::owner_exec);
    expect_refused({"organ", "assemble", organs_, "-o", folder_.file("closed/o.gguf")}, 77);
  }
}

TEST_F(OrganOutputsTest, TooFewDescriptorsAreAnErrorToo) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  for (const rlim_t most : {4, 5, 6, 8}) {
    // The program raises the soft limit to the hard one, which only a process of its own may lower.
    const std::string script = folder_.file("stream.sh");
    std::ofstream(script) << "ulimit -n " << most << "\nexec \"$@\"\n";
    for (const std::vector<std::string>& command : commands()) {
      std::vector<std::string> words = {script, VINDEX_PROGRAM, "-q"};
      words.insert(words.end(), command.begin(), command.end());
      const ProgramResult result =
          RunningProgram("/bin/sh", with(words, {"-o", folder_.file("o.gguf"), "--force"}),
                         folder_.file("stream"))
              .finish();
      EXPECT_LT(result.exit_code, 128) << command[1] << " " << most << ": " << result.err;
      EXPECT_EQ(fs::exists(folder_.file("o.gguf")), result.exit_code == 0) << result.err;
      fs::remove(folder_.file("o.gguf"));
    }
  }
}

TEST_F(OrganOutputsTest, PipesAndDevicesStayWhatTheyAre) {
  std::vector<std::string> nodes = {folder_.file("pipe.gguf"), folder_.file("pipe.safetensors")};
  for (const std::string& pipe : nodes) {
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  }
  if (::mknod(folder_.file("null.gguf").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {  // as root
    nodes.push_back(folder_.file("null.gguf"));
  }
  for (const std::string& node : nodes) {
    for (const std::vector<std::string>& command : commands()) {
      expect_refused(with(command, {"-o", node, "--force"}), 73);
    }
    expect_refused(with(commands()[2], {"--factors", node, "--force"}), 73);
    expect_refused({"organ", "extract", model_, "-o", node}, 73);
    expect_refused({"decode", model_, "--tensor", "output_norm.weight", "-o", node, "--force"}, 73);
    expect_refused({"edit", "delete", model_, "--tensor", "output.weight", "--direction",
                    "singular", "0", "-o", node, "--force"},
                   node.ends_with(".gguf") ? 73 : 64);
    expect_refused({"edit", "delete", model_, "--tensor", "output.weight", "--direction",
                    "singular", "0", "--save-patch", node, "--force"},
                   node.ends_with(".gguf") ? 64 : 73);
    EXPECT_FALSE(fs::is_regular_file(node)) << node;
  }
}

TEST_F(OrganOutputsTest, NoInputIsWrittenOver) {
  fs::create_directory_symlink("organs", folder_.file("way"));
  fs::create_hard_link(organs_ + "/kv.gguf", folder_.file("twin.gguf"));
  for (const std::string& output :
       {organs_ + "/kv.gguf", organs_ + "/manifest.json", organs_ + "/../way/kv.gguf",
        folder_.file("twin.gguf"), organs_ + "/norm/output_norm.bin"}) {
    expect_refused({"organ", "assemble", organs_, "-o", output, "--force"}, 73);
    expect_refused({"organ", "graft", "--source", model_, "--target", organs_, "--type", "organ",
                    "-o", output, "--force"},
                   73);
    expect_refused(with({"organ", "purify", organs_}, {"-o", output, "--force"}), 73);
  }
  const std::string out = folder_.file("o.gguf");
  expect_refused(with(commands()[1], {"-o", out, "--report", folder_.file("way/../o.gguf")}), 64);
  expect_refused(with(commands()[2], {"-o", out, "--factors", folder_.file("way/../o.gguf")}), 64);
}

TEST_F(OrganOutputsTest, ADiskThatIsFullKeepsNothing) {
  const FileSizeLimit limit(20'000);
  for (const std::vector<std::string>& command : commands()) {
    expect_refused(with(command, {"-o", folder_.file("o.gguf")}), 74);
  }
  expect_refused({"organ", "purify", organs_, "--type", "ffn", "--layers", "0", "--cap", "1", "-o",
                  folder_.file("pure")},
                 74);
  expect_refused({"organ", "graft", "--source", organs_, "--target", organs_, "--type", "organ",
                  "-o", folder_.file("a/b/grafted")},
                 74);
  expect_refused({"organ", "extract", model_, organs_ + "/../m", "-o", folder_.file("fleet")}, 74);
  expect_refused({"organ", "extract", model_, "-o", folder_.file("again")}, 74);
  expect_refused({"organ", "extract", model_, "-o", folder_.file("a/b/again")}, 74);
}

TEST_F(OrganOutputsTest, ARefusalTakesLittle) {
  const long own = run({"--version"}).peak_kib;
  const auto expect_little = [&](const std::string& input, int code) {
    const ProgramResult result =
        run({"-q", "organ", "assemble", input, "-o", folder_.file("o.gguf")});
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_LT(result.cpu_seconds, 2.0) << result.err;
    EXPECT_LT(result.peak_kib - own, 200 * 1024) << result.err;
  };
  const auto write = [&](const std::string& name, const std::string& begin,
                         const std::string& again, std::size_t times) {
    std::ofstream file(folder_.file(name), std::ios::binary);
    file << begin;
    for (std::size_t i = 0; i < times; ++i) {
      file << again;
    }
  };
  write("organs/manifest.json", R"({"kv":[)", "0,", 10'000'000);
  expect_little(organs_, 65);
  for (const char* folder :
       {"norm", "absent/"}) {  // one that is there, and another for every tensor
    std::ofstream manifest(organs_ + "/manifest.json");
    manifest << R"({"schema":"organ-manifest/1","tensors":[)";
    ASSERT_EQ(fs::exists(organs_ + "/" + folder), !std::string(folder).ends_with('/'));
    for (int i = 0; i < 200'000; ++i) {
      manifest << R"({"name":"a","type":"F32","ne":[],"bytes":0,"source_file":0,"file":")" << folder
               << (std::string(folder).ends_with('/') ? std::to_string(i) : std::string()) << "/"
               << i << R"(.bin","offset":0,"sha256":null},)";
    }
    manifest.close();
    expect_little(organs_, 65);
  }
  write("organs/manifest.json", std::string(), std::string(1 << 20U, '['), 120);
  expect_little(organs_, 65);
  write("r.json", R"({"schema":"organ-recipe/1","donors":[)", "0,", 900'000);
  expect_little(folder_.file("r.json"), 65);
}

/// Every option of every command that takes a number with a fraction.
TEST_F(ProgramTest, NumbersThatAreNoneAreRefusedByEveryOption) {
  std::size_t numbers = 0;
  for (const auto& [name, command] : commands_of_program()) {
    std::vector<std::string> words = words_of(name);
    std::vector<std::string> help = words;
    help.emplace_back("--help");
    ASSERT_EQ(run(help).out.find(" FLOAT"), std::string::npos)
        << name << ": made by add_number() (apps/options/values.hpp)?";
    words.insert(words.end(), command["positionals"].size(), "M");
    for (const auto& described : command["options"]) {
      if (described["type"] != "number") {
        continue;
      }
      const std::string option = described["name"];
      ++numbers;
      for (const char* wrong : {"nan", "-nan", "NaN", "inf", "-inf", "infinity", "0x1p-3", "1e999",
                                "0.5x", "abc", "+-1", ""}) {
        std::vector<std::string> arguments = words;
        arguments.push_back(option + "=" + wrong);
        const ProgramResult result = run(arguments);
        EXPECT_EQ(result.exit_code, 64) << option << " " << wrong << ": " << result.err;
        EXPECT_NE(result.err.find(option), std::string::npos) << result.err;
      }
    }
  }
  EXPECT_GE(numbers, 7U) << "--rho, --rate, --cap, --alpha twice, --ridge, --case-seconds";
  for (const char* wrong : {"nan", "inf", "0x10", "1e999GiB", "GiB", "-1GiB", ""}) {
    EXPECT_EQ(run({"plan", "M", std::string("--ram-budget=") + wrong}).exit_code, 64) << wrong;
  }
}

}  // namespace
}  // namespace vindex::testing::organ_outputs_test
