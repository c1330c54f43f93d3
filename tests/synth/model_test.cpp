#include "temporary_folder.hpp"

#include <vindex/core/error.hpp>
#include <vindex/synth/synth.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace vindex::synth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::map<std::string, std::string> read_folder(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

TEST(MakeModel, SameSpecAndSeedGiveTheSameBytes) {
  const TemporaryFolder scratch;
  make_model("layer:3x96x64:fp8:powerlaw", 7, scratch / "a");
  make_model("layer:3x96x64:fp8:powerlaw", 7, scratch / "b");
  make_model("layer:3x96x64:fp8:powerlaw", 8, scratch / "c");
  const auto a = read_folder(scratch / "a");
  EXPECT_EQ(a, read_folder(scratch / "b"));
  EXPECT_NE(a.at("model.safetensors"), read_folder(scratch / "c").at("model.safetensors"));
}

TEST(MakeModel, ScalesOfTwoWeightsLieInTheNextShard) {
  const TemporaryFolder scratch;
  make_model("kimi-k2-mini", 0, scratch / "m");
  const Json index = Json::parse(read_text(scratch / "m/model.safetensors.index.json"));
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
  } catch (const UsageError& error) {
    for (const std::string& known : known_specs()) {
      EXPECT_NE(std::string(error.what()).find(known), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace vindex::synth
