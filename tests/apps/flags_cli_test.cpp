// Flags are spelt alike in every command, and former spellings say what they are now.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {
namespace {

using Json = nlohmann::json;

class FlagsCliTest : public ProgramTest {
 protected:
  std::string refusal(const std::vector<std::string>& arguments) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }
};

TEST_F(FlagsCliTest, OneSpellingInEveryCommand) {
  const Json document = Json::parse(run({"commands", "--json"}).out);
  std::size_t selections = 0;
  for (const auto& [command, about] : document["commands"].items()) {
    for (const Json& option : about["options"]) {
      const std::string name = option["name"];
      const std::vector<std::string> aliases = option["aliases"];
      EXPECT_NE(name, "--replace") << command;
      for (const std::string stem : {"--layer", "--block", "--role"}) {
        if (name == stem || name == stem + "s") {
          ++selections;
          EXPECT_EQ(name, stem + "s") << command;
          EXPECT_EQ(aliases, std::vector<std::string>{stem}) << command;
          EXPECT_EQ(option["type"], "text") << command;
        }
      }
      if (name == "--force") {
        EXPECT_EQ(std::string(option["description"]).rfind("Replace", 0), 0U) << command;
      }
    }
  }
  EXPECT_GE(selections, 20U);
}

TEST_F(FlagsCliTest, FormerSpellingsNameTheOnesOfNow) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"organ", "purify", "m.gguf", "--replace"},
           {"organ", "graft", "--source", "a", "--target", "b", "--type", "organ", "--replace"},
           {"organ", "assemble", "in", "-o", "out", "--replace"},
           {"edit", "apply", "m", "--patch", "p", "--replace"},
           {"export", "r.h5", "--format", "csv", "-o", "x", "--replace"}}) {
    EXPECT_NE(refusal(words).find("--replace is --force now"), std::string::npos) << words[1];
  }
  EXPECT_NE(refusal({"organ", "diff", "a", "b", "--layers"}).find("--layers is --by-layer now"),
            std::string::npos);
}

TEST_F(FlagsCliTest, AnUnknownFlagIsNamedWithTheOneThatIsMeant) {
  const std::string misspelt = refusal({"measure", "m", "-o", "o.h5", "--layrs", "3"});
  EXPECT_NE(misspelt.find("vindex measure has no flag --layrs; did you mean --layers?"),
            std::string::npos)
      << misspelt;
  const std::string unlike = refusal({"trace", "m", "--ids", "p", "--temperature=3"});
  EXPECT_NE(unlike.find("vindex trace has no flag --temperature; `vindex trace --help`"),
            std::string::npos)
      << unlike;
  const std::string needed = refusal({"trace", "m", "--idz", "p"});
  EXPECT_NE(needed.find("has no flag --idz; did you mean --ids?"), std::string::npos) << needed;
  const std::string word = refusal({"inspect", "m", "another"});
  EXPECT_NE(word.find("vindex inspect: an argument too many: 'another'"), std::string::npos)
      << word;
}

TEST_F(FlagsCliTest, FlagsOfATraceThatWouldDoNothingAreRefused) {
  for (const auto& [words, without] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--keep", "hidden"}, "--keep means nothing without -o"},
           {{"--layers", "3"}, "--layers means nothing without -o"},
           {{"--dtype", "f16"}, "--dtype means nothing without -o"},
           {{"--format", "safetensors"}, "--format means nothing without -o"},
           {{"--force"}, "--force means nothing without -o"},
           {{"--effective-rank"}, "--effective-rank means nothing without --statistics"},
           {{"--against-config", "c"}, "--against-config means nothing without --against"}}) {
    std::vector<std::string> arguments = {"trace", "m", "--ids", "p", "--loss"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    EXPECT_NE(refusal(arguments).find(without), std::string::npos) << without;
  }
}

TEST_F(FlagsCliTest, FeaturesAreStoredOfModelsAlone) {
  const std::string file = folder_.file("g.h5");
  std::ofstream(file) << "\x89HDF\r\n\x1a\n";
  EXPECT_NE(refusal({"lookup", file, "-o", "h.h5"}).find("-o stores features of a model"),
            std::string::npos);
}

TEST_F(FlagsCliTest, ASizeWithoutItsUnitAndWhatIsMissing) {
  const std::string size = refusal({"measure", "m", "-o", "o.h5", "--ram-budget", "16"});
  EXPECT_NE(size.find("`16` is 16 bytes; did you mean 16GiB?"), std::string::npos) << size;
  const std::string missing = refusal({"compare", "a", "-o", "o.h5"});
  EXPECT_NE(missing.find("vindex compare needs B (Model B: folder or file)"), std::string::npos)
      << missing;
  const std::string output = refusal({"compare", "a", "b"});
  EXPECT_NE(output.find("vindex compare needs --output"), std::string::npos) << output;
}

TEST_F(FlagsCliTest, AFileOfFlagsGivesWayToEitherSpelling) {
  must({"synth", "layer:4x48x40:bf16", "-o", folder_.file("model")});
  const std::string flags = folder_.file("flags.toml");
  std::ofstream(flags) << "layers = \"7\"\n";
  for (const char* spelling : {"--layer", "--layers"}) {
    const ProgramResult result =
        run({"plan", folder_.file("model"), "--config", flags, spelling, "1", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(FlagsCliTest, ReadingIsToldWhereItIsAskedFor) {
  must({"synth", "layer:4x48x40:bf16", "-o", folder_.file("model")});
  const auto end = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"measure", folder_.file("model"), "-o", folder_.file("o.h5"),
                               "--progress", "none", "--restart"});
    return run(more).out;
  };
  EXPECT_EQ(end({}).find("read "), std::string::npos);
  EXPECT_NE(end({"-v"}).find("read 15.4 kB at "), std::string::npos);
  EXPECT_EQ(end({"-q"}), "");
}

TEST_F(FlagsCliTest, HelpFollowsTheTerminal) {
  const auto widest = [&](const char* columns) {
    ::setenv("COLUMNS", columns, 1);
    const std::string text = run({"measure", "--help"}).out;
    ::unsetenv("COLUMNS");
    std::istringstream lines(text.substr(text.find("Options:")));
    std::size_t most = 0;
    for (std::string line; std::getline(lines, line);) {
      most = std::max(most, line.size());
    }
    return most;
  };
  EXPECT_LE(widest("60"), 60U);
  EXPECT_GT(widest("100"), 85U);
  EXPECT_LE(widest("100"), 100U);
  EXPECT_LE(widest("400"), 100U);
}

}  // namespace
}  // namespace vindex::testing
