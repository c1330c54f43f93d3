// Real GGUF files: extracted and assembled they are the same bytes; older containers are
// normalised.
#include "organ/assemble/assemble.hpp"
#include "organ/extract/extract.hpp"
#include "organ/verify/verify.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace vindex::organ::real_files_test {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::TemporaryFolder;

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path path = fs::path(VINDEX_SHARED_DATA) / "gguf" / folder;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".gguf") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string round_trip(const fs::path& model, bool by_reference, const TemporaryFolder& folder) {
  ExtractSettings apart;
  apart.model = model;
  apart.output = folder / "organs";
  apart.by_reference = by_reference;
  extract(apart);
  AssembleSettings together;
  together.input = apart.output;
  together.output = folder / "again.gguf";
  const AssembleReport report = assemble(together);
  return report.composed.files.front();
}

TEST(RealFilesTest, ExtractThenAssembleIsTheSameFile) {
  std::vector<fs::path> files = files_of("full");
  for (const char* folder : {"conformance", "variants"}) {
    const std::vector<fs::path> more = files_of(folder);
    files.insert(files.end(), more.begin(), more.end());
  }
  if (files.empty()) {
    GTEST_SKIP() << "no real files: " << VINDEX_SHARED_DATA;
  }
  for (const fs::path& file : files) {
    const std::string original = file_text(file);
    for (const bool by_reference : {false, true}) {
      const TemporaryFolder folder;
      const std::string made = file_text(round_trip(file, by_reference, folder));
      if (original.substr(4, 4) == std::string("\3\0\0\0", 4)) {
        EXPECT_EQ(made == original, true) << file << " " << by_reference;
      } else {
        EXPECT_EQ(made.substr(4, 4), std::string("\3\0\0\0", 4)) << file;
      }
    }
  }
}

TEST(RealFilesTest, SplitsComeBack) {
  const std::vector<fs::path> splits = files_of("split");
  if (splits.empty()) {
    GTEST_SKIP() << "no split model: " << VINDEX_SHARED_DATA;
  }
  for (const bool by_reference : {false, true}) {
    const TemporaryFolder folder;
    ExtractSettings apart;
    apart.model = splits[1];  // any of them finds the rest
    apart.output = folder / "organs";
    apart.by_reference = by_reference;
    extract(apart);
    fs::create_directory(folder / "out");
    AssembleSettings together;
    together.input = apart.output;
    together.output = folder / "out";
    EXPECT_EQ(assemble(together).composed.files.size(), splits.size());
    for (const fs::path& split : splits) {
      EXPECT_EQ(file_text(fs::path(folder / "out") / split.filename()) == file_text(split), true)
          << split;
    }
  }
}

TEST(RealFilesTest, RealModelsAreClean) {
  std::vector<fs::path> files = files_of("full");
  if (files.empty()) {
    GTEST_SKIP() << "no real files: " << VINDEX_SHARED_DATA;
  }
  const std::vector<fs::path> splits = files_of("split");
  files.insert(files.end(), splits.begin(), splits.end());
  for (const fs::path& file : files) {
    VerifySettings settings;
    settings.path = file;
    settings.check_tensors = true;
    const VerifyReport report = verify(settings);
    EXPECT_EQ(report.errors, 0U) << file << ": " << report.findings.front().what;
    EXPECT_GT(report.tensors_checked, 0U);
  }
}

}  // namespace
}  // namespace vindex::organ::real_files_test
