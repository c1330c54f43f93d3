// Reads every include line of the tree against the table of allowed directions. Link targets hold
// the same rule for functions; this holds it for types, which a header alone can carry upwards.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
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
      {"input", {"input", "gguf", "decode", "core"}},
      {"model", {"model", "architecture", "input", "gguf", "decode", "core"}},
      {"architecture", {"architecture"}},
      {"backend", {"backend", "decode", "core"}},
      {"statistics", {"statistics", "backend", "architecture", "decode", "core"}},
      {"blas", {"blas", "core"}},
      {"cpu", {"cpu", "blas", "statistics", "backend", "architecture", "decode", "core"}},
      {"kernels", {"kernels", "statistics", "backend", "architecture", "decode", "core"}},
      {"results", {"results", "model", "statistics", "backend", "architecture", "decode", "core"}},
      {"write", {"write", "input", "gguf", "decode", "core"}},
      {"engine",
       {"engine", "results", "model", "cpu", "kernels", "blas", "statistics", "backend",
        "architecture", "input", "gguf", "decode", "core"}},
      {"organ",
       {"organ", "engine", "write", "model", "statistics", "backend", "architecture", "input",
        "gguf", "decode", "core"}},
      {"report",
       {"report", "commands/cka", "commands/token_tables", "commands/spectra", "engine", "results",
        "model", "statistics", "backend", "architecture", "decode", "core"}},
      {"fleet",
       {"fleet", "commands/spectra", "organ", "engine", "results", "model", "statistics", "backend",
        "architecture", "input", "decode", "core"}},
      {"synth", {"synth", "write", "gguf", "decode", "core"}},
      {"throughput",
       {"throughput", "commands/purify", "commands/spectra", "engine", "results", "model", "cpu",
        "blas", "statistics", "backend", "architecture", "input", "gguf", "write", "synth",
        "decode", "core"}},
      {"library",
       {"vindex.hpp", "commands/decode", "commands/spectra", "engine", "results", "model",
        "statistics", "backend", "architecture", "input", "blas", "decode", "core"}},
  };
  return table;
}

/// A job is a folder of host/commands: it may include what is below all of them, and no other job.
/// Those that write models also what writes.
std::set<std::string> allowed_of_job(const std::string& job) {
  std::set<std::string> allowed = {job,       "commands/token_tables",
                                   "engine",  "results",
                                   "model",   "cpu",
                                   "blas",    "statistics",
                                   "backend", "architecture",
                                   "input",   "gguf",
                                   "decode",  "core"};
  if (job == "commands/edit" || job == "commands/purify" || job == "commands/trace") {
    allowed.insert("write");
  }
  if (job == "commands/purify") {
    allowed.insert("organ");
  }
  return allowed;
}

/// "core", "commands/spectra".
std::string layer_of(const std::string& header) {
  const std::string first = header.substr(0, header.find('/'));
  return first == "commands" ? header.substr(0, header.find('/', first.size() + 1)) : first;
}

/// What the program may include: the layers that commands end in, and of host/commands a command
/// the folder of its own name. No list of commands: a new one is in its folders alone.
bool may_include(const fs::path& source, const std::string& header) {
  static const std::set<std::string> layers = {
      "apps",   "blas",    "core",       "engine", "fleet",      "input",      "model",    "organ",
      "report", "results", "statistics", "synth",  "throughput", "vindex.hpp", "error.hpp"};
  // The command measure is the job spectra; show prints pairs as compare does.
  static const std::map<std::string, std::string> others = {{"measure", "commands/spectra"},
                                                            {"show", "commands/compare"}};
  const std::string target = layer_of(header);
  if (!target.starts_with("commands/")) {
    return layers.contains(target);
  }
  const std::string name = source.stem().string();
  const bool is_command = source.string().find("apps/commands/") != std::string::npos;
  // What all commands that measure take, and OpenBLAS, which main.cpp loads ahead.
  return is_command
             ? target == "commands/" + name || (others.contains(name) && target == others.at(name))
             : target == "commands/spectra";
}

/// "engine/run/progress.hpp" of every include of a header that lies in another folder, or is
/// installed
/// ("vindex.hpp").
std::set<std::string> included(std::istream& text) {
  std::set<std::string> found;
  for (std::string line; std::getline(text, line);) {
    const std::string quoted = "#include \"";
    const std::string installed = "#include <vindex/";
    if (line.rfind(installed, 0) == 0) {
      found.insert(line.substr(installed.size(), line.find('>') - installed.size()));
    } else if (line.rfind(quoted, 0) == 0 && line.find('/') != std::string::npos) {
      found.insert(line.substr(quoted.size(), line.rfind('"') - quoted.size()));
    }
  }
  return found;
}

std::set<std::string> included_by(const fs::path& file) {
  std::ifstream text(file);
  return included(text);
}

/// Every layer of the table, and every job there is.
std::set<std::string> layers(const fs::path& root) {
  std::set<std::string> all;
  for (const auto& [layer, unused] : allowed_includes()) {
    all.insert(layer);
  }
  for (const auto& entry : fs::directory_iterator(root / "host/commands")) {
    if (entry.is_directory()) {
      all.insert("commands/" + entry.path().filename().string());
    }
  }
  return all;
}

/// Upward includes of one file: "layer of file -> layer included".
std::set<std::string> violations(const std::string& layer, std::istream& text) {
  const std::set<std::string> allowed =
      layer.starts_with("commands/") ? allowed_of_job(layer) : allowed_includes().at(layer);
  std::set<std::string> found;
  for (const std::string& header : included(text)) {
    const std::string target = layer_of(header);
    if (header != "error.hpp" && !allowed.contains(target)) {
      found.insert(layer + " -> " + target);
    }
  }
  return found;
}

TEST(LayersTest, NoFileIncludesUpwards) {
  const fs::path root = VINDEX_SOURCE_DIR;
  std::set<std::string> found;
  int files = 0;
  for (const std::string& layer : layers(root)) {
    const fs::path folder = layer == "kernels" ? root / layer : root / "host" / layer;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        std::ifstream text(entry.path());
        found.merge(violations(layer, text));
        ++files;
      }
    }
  }
  EXPECT_GT(files, 30);
  EXPECT_EQ(found, std::set<std::string>{});
}

TEST(LayersTest, AnUpwardIncludeIsSeen) {
  std::istringstream text("#pragma once\n#include \"engine/run/job.hpp\"\n");
  EXPECT_EQ(violations("statistics", text), std::set<std::string>{"statistics -> engine"});
}

// A results file is a table: what its numbers mean is known to jobs and reports.
TEST(LayersTest, ResultsKnowNoMetric) {
  std::set<std::string> found;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(VINDEX_SOURCE_DIR) / "host/results")) {
    found.merge(included_by(entry.path()));
  }
  std::erase_if(found, [](const std::string& header) {
    return layer_of(header) != "statistics" && layer_of(header) != "backend";
  });
  // What the samples of 1-D tensors say stands in the list of tensors.
  EXPECT_EQ(found,
            (std::set<std::string>{"backend/backend.hpp", "statistics/spectrum/sample_angles.hpp",
                                   "statistics/scales/scale_figures.hpp"}));
}

TEST(LayersTest, AJobThatIncludesAnotherIsSeen) {
  std::istringstream text("#include \"commands/cka/cka_run.hpp\"\n");
  EXPECT_EQ(violations("commands/routing", text),
            std::set<std::string>{"commands/routing -> commands/cka"});
}

TEST(LayersTest, ACommandOfTheProgramIncludesItsOwnFolderAlone) {
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(VINDEX_SOURCE_DIR) / "apps")) {
    for (const std::string& header : included_by(entry.path())) {
      if (!may_include(entry.path(), header)) {
        found.insert(entry.path().filename().string() + " -> " + header);
      }
    }
  }
  EXPECT_EQ(found, std::set<std::string>{});
  EXPECT_FALSE(may_include("apps/commands/cka.cpp", "commands/experts/experts_run.hpp"));
  EXPECT_FALSE(may_include("apps/commands/cka.cpp", "cpu/cpu_backend.hpp"));
}

TEST(LayersTest, RoomsOfTheProgramIncludeDownwards) {
  const std::map<std::string, int> order = {
      {"process", 0}, {"console", 1}, {"options", 2}, {"reporting", 3}, {"commands", 4}};
  std::set<std::string> found;
  for (const auto& [room, place] : order) {
    const fs::path folder = fs::path(VINDEX_SOURCE_DIR) / "apps" / room;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      for (const std::string& header : included_by(entry.path())) {
        if (header.starts_with("apps/") &&
            order.at(header.substr(5, header.find('/', 5) - 5)) > place) {
          found.insert(room + " -> " + header);
        }
      }
    }
  }
  EXPECT_EQ(found, std::set<std::string>{});
}

/// Whether a text calls what opens files of the system: ::open() and its like, not Class::open().
bool opens_files(const std::string& text) {
  for (const std::string call : {"::open(", "::openat("}) {
    for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      const char before = at == 0 ? ' ' : text[at - 1];
      if (std::isalnum(static_cast<unsigned char>(before)) == 0 && before != '_' && before != '>') {
        return true;
      }
    }
  }
  return text.find("ifstream") != std::string::npos || text.find("fopen(") != std::string::npos;
}

// What a run reads for somebody else passes core/files/reading_bounds.hpp. Beside it files are
// opened that are written, that the system has, or that a variable of the environment names.
TEST(LayersTest, FilesOfUsersAreOpenedByOneGate) {
  std::set<std::string> found;
  for (const char* folder : {"apps", "host"}) {
    const fs::path root = VINDEX_SOURCE_DIR;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) {
        continue;
      }
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      if (opens_files(text)) {
        found.insert(entry.path().lexically_relative(root).string());
      }
    }
  }
  const std::set<std::string> gate = {"host/core/files/reading_bounds.cpp",
                                      "host/core/files/reading_bounds.hpp"};
  const std::set<std::string> written = {
      "host/core/files/atomic_file.cpp",           "host/core/files/file_clock.cpp",
      "host/input/stores/shard_copy.cpp",          "host/results/parts/heartbeat.cpp",
      "host/commands/trace/tokens/token_rows.cpp", "host/results/parts/lock_file.cpp"};
  const std::set<std::string> of_system = {"apps/process/system_limits.cpp",
                                           "host/throughput/report.cpp",
                                           "host/blas/processor.cpp",
                                           "host/cpu/cpu_info.cpp",
                                           "host/core/process/control_groups.cpp",
                                           "host/core/files/process_name.cpp",
                                           "host/engine/plan/memory_budget.cpp",
                                           "host/input/bulk/direct_files.cpp",
                                           "host/input/bulk/read_calls.cpp",
                                           "host/core/files/small_file.cpp"};
  const std::set<std::string> of_environment = {"host/input/hub/hf_store.cpp",
                                                "host/input/remote/remote_environment.cpp"};
  std::set<std::string> known;
  for (const auto* files : {&gate, &written, &of_system, &of_environment}) {
    known.insert(files->begin(), files->end());
  }
  for (const std::string& file : found) {
    EXPECT_TRUE(known.contains(file)) << file << " opens files: use open_to_read()";
  }
}

TEST(LayersTest, TheInstalledHeadersIncludeNoOthers) {
  const fs::path headers = fs::path(VINDEX_SOURCE_DIR) / "include/vindex";
  EXPECT_EQ(included_by(headers / "vindex.hpp"), std::set<std::string>{"error.hpp"});
  EXPECT_EQ(included_by(headers / "error.hpp"), std::set<std::string>{});
}

}  // namespace
