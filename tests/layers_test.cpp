// Reads every include line of the tree against the table of allowed directions. Link targets hold
// the same rule for functions; this holds it for types, which a header alone can carry upwards.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;
using Allowed = std::map<std::string, std::set<std::string>>;

const Allowed& allowed_includes() {
  static const Allowed table = {
      {"core", {"core"}},
      {"decode", {"decode", "core"}},
      {"gguf", {"gguf", "decode", "core"}},
      {"shard", {"shard", "gguf", "decode", "core"}},
      {"model", {"model", "shard", "gguf", "decode", "core"}},
      {"measure", {"measure", "decode", "core"}},
      {"blas", {"blas", "core"}},
      {"cpu", {"cpu", "blas", "measure", "decode", "core"}},
      {"kernels", {"kernels", "measure", "decode", "core"}},
      {"results", {"results", "model", "measure", "decode", "core"}},
      {"write", {"write", "shard", "gguf", "decode", "core"}},
      {"organ",
       {"organ", "run", "results", "write", "model", "measure", "shard", "gguf", "blas", "decode",
        "core"}},
      {"edit",
       {"edit", "run", "write", "model", "measure", "shard", "gguf", "blas", "decode", "core"}},
      {"synth", {"synth", "write", "gguf", "decode", "core"}},
      {"run",
       {"run", "results", "model", "cpu", "kernels", "blas", "measure", "shard", "gguf", "decode",
        "core"}},
      {"bench",
       {"edit", "organ", "bench", "run", "results", "model", "cpu", "blas", "measure", "shard",
        "gguf", "write", "synth", "decode", "core"}},
      {"apps",
       {"edit", "organ", "bench", "run", "results", "model", "measure", "shard", "gguf", "synth",
        "decode", "blas", "core"}},
  };
  return table;
}

/// Upward includes of one file: "layer of file -> layer included".
std::set<std::string> violations(const std::string& layer, std::istream& text) {
  std::set<std::string> found;
  for (std::string line; std::getline(text, line);) {
    const std::string prefix = "#include <vindex/";
    if (line.rfind(prefix, 0) == 0) {
      const std::string target =
          line.substr(prefix.size(), line.find('/', prefix.size()) - prefix.size());
      if (!allowed_includes().at(layer).contains(target)) {
        found.insert(layer + " -> " + target);
      }
    }
  }
  return found;
}

TEST(LayersTest, NoFileIncludesUpwards) {
  const fs::path root = VINDEX_SOURCE_DIR;
  std::set<std::string> found;
  int files = 0;
  for (const auto& [layer, unused] : allowed_includes()) {
    for (const fs::path& folder :
         {root / "include/vindex" / layer, root / "host" / layer, root / layer}) {
      if (!fs::is_directory(folder)) {
        continue;
      }
      for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) {
          std::ifstream text(entry.path());
          found.merge(violations(layer, text));
          ++files;
        }
      }
    }
  }
  EXPECT_GT(files, 30);
  EXPECT_EQ(found, std::set<std::string>{});
}

TEST(LayersTest, AnUpwardIncludeIsSeen) {
  std::istringstream text("#pragma once\n#include <vindex/run/pipeline.hpp>\n");
  EXPECT_EQ(violations("measure", text), std::set<std::string>{"measure -> run"});
}

}  // namespace
