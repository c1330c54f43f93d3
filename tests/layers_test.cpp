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
      {"library", {"vindex.hpp", "run", "results", "model", "measure", "shard", "decode", "core"}},
      {"apps",
       {"vindex.hpp", "edit", "organ", "bench", "run", "results", "model", "synth", "blas",
        "core"}},
  };
  return table;
}

/// What the program includes beside vindex.hpp and core: the entries of its verbs, which the
/// library does not have yet. An entry that nothing includes any more is taken out; none is added.
const std::set<std::string>& entries_of_verbs() {
  static const std::set<std::string> headers = {
      "bench/bench.hpp",          "bench/encoded_weights.hpp",
      "blas/blas_library.hpp",    "edit/edit_model.hpp",
      "model/inspect.hpp",        "organ/assemble.hpp",
      "organ/extract.hpp",        "organ/graft.hpp",
      "organ/measure_fleet.hpp",  "organ/model_difference.hpp",
      "organ/purify.hpp",         "organ/verify.hpp",
      "results/compared.hpp",     "results/export.hpp",
      "results/run_store.hpp",    "results/show.hpp",
      "results/shown_cells.hpp",  "run/activations_run.hpp",
      "run/awaited_launches.hpp", "run/cka_run.hpp",
      "run/compare_run.hpp",      "run/decode_tensor.hpp",
      "run/experts_run.hpp",      "run/job_runner.hpp",
      "run/lookup_run.hpp",       "run/measure_run.hpp",
      "run/progress.hpp",         "run/ram_budget.hpp",
      "run/routing_run.hpp",      "run/small_file.hpp",
      "run/summary.hpp",          "run/version.hpp",
      "synth/synth.hpp",
  };
  return headers;
}

/// "run/progress.hpp" of every include of a header of ours.
std::set<std::string> included(std::istream& text) {
  std::set<std::string> found;
  const std::string prefix = "#include <vindex/";
  for (std::string line; std::getline(text, line);) {
    if (line.rfind(prefix, 0) == 0) {
      found.insert(line.substr(prefix.size(), line.find('>') - prefix.size()));
    }
  }
  return found;
}

std::set<std::string> included_by(const fs::path& file) {
  std::ifstream text(file);
  return included(text);
}

/// Upward includes of one file: "layer of file -> layer included".
std::set<std::string> violations(const std::string& layer, std::istream& text) {
  std::set<std::string> found;
  for (const std::string& header : included(text)) {
    const std::string target = header.substr(0, header.find('/'));
    if (!allowed_includes().at(layer).contains(target)) {
      found.insert(layer + " -> " + target);
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

TEST(LayersTest, TheProgramIncludesTheEntriesOfItsVerbsAlone) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path(VINDEX_SOURCE_DIR) / "apps")) {
    found.merge(included_by(entry.path()));
  }
  std::erase_if(found, [](const std::string& header) {
    return header == "vindex.hpp" || header.rfind("core/", 0) == 0;
  });
  EXPECT_EQ(found, entries_of_verbs());
}

TEST(LayersTest, TheInstalledHeadersIncludeNoOthers) {
  const fs::path headers = fs::path(VINDEX_SOURCE_DIR) / "include/vindex";
  EXPECT_EQ(included_by(headers / "vindex.hpp"), std::set<std::string>{"core/error.hpp"});
  EXPECT_EQ(included_by(headers / "core/error.hpp"), std::set<std::string>{});
}

}  // namespace
