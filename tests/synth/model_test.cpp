// Synthetic models: the same bytes on every machine, and what is refused.
#include "core/digest.hpp"
#include "synth/make_model.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace vindex::synth::model_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::file_text;
using testing::folder_content;
using testing::TemporaryFolder;

TEST(MakeModel, SameSpecAndSeedGiveTheSameBytes) {
  const TemporaryFolder scratch;
  make_model("layer:3x96x64:fp8:powerlaw", 7, scratch / "a");
  make_model("layer:3x96x64:fp8:powerlaw", 7, scratch / "b");
  make_model("layer:3x96x64:fp8:powerlaw", 8, scratch / "c");
  const auto a = folder_content(scratch / "a");
  EXPECT_EQ(a, folder_content(scratch / "b"));
  EXPECT_NE(a.at("model.safetensors"), folder_content(scratch / "c").at("model.safetensors"));
}

// One digest over the names and contents of all files.
std::string digest_of(const std::string& folder) {
  Sha256 digest;
  for (const auto& [name, text] : folder_content(folder)) {
    digest.update(name);
    digest.update(text);
  }
  return hex(digest.finish());
}

// Pinned: a change here changes every published figure that names a spec and a seed. The same
// bytes come from g++ -O3 and clang++ -O1.
TEST(MakeModel, BytesAreThoseOfEveryMachine) {
  const std::map<std::string, std::string> pinned = {
      {"kimi-k2-mini", "31f56660de795fe942a015dee644801e4aca8a3ec6ff59a1578dd66eae54e24d"},
      {"kimi-k2-mini-int4", "e32b2090244e6f1724ddb791c8811ddb191ad99317b5f493edfde417dad5a487"},
      {"kimi-k2-mini-q8_0", "b7c305fc4622910256df76101ba18df28231ab60942d3a2c5ba338804bc25478"},
      {"layer:2x300x4100:bf16:powerlaw",
       "00344291ae1b73238225faac1233d3a6d035d3338f7062085161ac11e6286242"},
      {"layer:2x300x4100:bf16:trained",
       "8a6b2302f4a54720d871b37328f648986f3d19c2a6a255d35e83cc4caecf0663"},
      {"layer:1x96x64:fp8:rowscale",
       "85e93ff302452a199500cd4bc0f6ffaf0681b4ae1bde130729d75b569a405e80"},
  };
  const TemporaryFolder scratch;
  for (const auto& [spec, digest] : pinned) {
    const std::string folder = scratch / std::to_string(std::hash<std::string>()(spec));
    make_model(spec, 0, folder);
    EXPECT_EQ(digest_of(folder), digest) << spec;
  }
}

TEST(MakeModel, ScalesOfTwoWeightsLieInTheNextShard) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini", 0, scratch / "m");
  const Json index = Json::parse(file_text(scratch / "m/model.safetensors.index.json"));
  int apart = 0;
  for (const auto& [name, file] : index["weight_map"].items()) {
    const auto weight = index["weight_map"].find(name.substr(0, name.rfind("_scale_inv")));
    if (name.ends_with("_scale_inv")) {
      ASSERT_NE(weight, index["weight_map"].end()) << name;
      apart += *weight != file ? 1 : 0;
    }
  }
  EXPECT_EQ(apart, 2);
}

TEST(MakeModel, RefusesAFolderWithContent) {
  const TemporaryFolder scratch;
  fs::create_directories(scratch / "full/inside");
  try {
    make_model("kimi-k2-mini", 0, scratch / "full");
    FAIL() << "a folder with content was accepted";
  } catch (const OutputError& error) {
    EXPECT_EQ(error.id(), "E-OUTPUT-NOT-EMPTY");
    EXPECT_EQ(error.exit_code(), ExitCode::kCannotCreate);
  }
}

TEST(MakeModel, UnknownSpecsAreRefusedWithTheKnownOnes) {
  const TemporaryFolder scratch;
  for (const char* spec :
       {"kimi", "kimi-k2-mini-q4", "layer:", "layer:2x3:fp8", "layer:0x8x8:fp8", "layer:2x8x8:q4",
        "layer:2x8x8:fp8:flat", "layer:2x8x8:int4", "layer:2x8x9999999999999999999:fp8",
        "layer:2x8x8x8:fp8", "layer:1x99999999999x99999999999:bf16", ""}) {
    EXPECT_THROW(make_model(spec, 0, scratch / "m"), UsageError) << spec;
    EXPECT_FALSE(fs::exists(scratch / "m")) << spec;
  }
  try {
    make_model("nope", 0, scratch / "m");
    FAIL();
  } catch (const UsageError& error) {
    for (const std::string& known : known_specs()) {
      EXPECT_NE(std::string(error.what()).find(known), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace vindex::synth::model_test
