// Folders whose files are links: to shards elsewhere, into a Hugging Face cache, and to what is no
// file at all.
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>

namespace vindex::input::links_test {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

std::string shard_of(const std::string& tensor) {
  return testing::safetensors_file(
      R"({")" + tensor + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
}

void write_index(const TemporaryFolder& folder, const std::string& name) {
  folder.write(name + "/" + kIndex, R"({"metadata":{"total_size":16},"weight_map":)"
                                    R"({"x":"a.safetensors","y":"b.safetensors"}})");
}

/// "" where the model opens, else the error's id and exit code.
std::string outcome_of(const std::string& path) {
  return testing::outcome_of([&] { open_model(path); });
}

std::string message_of(const std::string& path) {
  return testing::message_of([&] { open_model(path); });
}

/// Each warning as "ID: text".
std::vector<std::string> warnings_of(const std::string& path) {
  std::vector<std::string> lines;
  for (const Warning& warning : open_model(path).warnings) {
    lines.push_back(warning.id + ": " + warning.text);
  }
  return lines;
}

/// `model` with an index and links to two shards in `store`.
class LinkedModel : public ::testing::Test {
 protected:
  LinkedModel() {
    folder_.write("store/one", shard_of("x"));
    folder_.write("store/two", shard_of("y"));
    write_index(folder_, "model");
    fs::create_symlink("../store/one", model_ + "/a.safetensors");
    fs::create_symlink(folder_ / "store/two", model_ + "/b.safetensors");
  }
  /// Replaces the second shard by a link to `target`.
  void link_second(const std::string& target) {
    fs::remove(model_ + "/b.safetensors");
    fs::create_symlink(target, model_ + "/b.safetensors");
  }
  TemporaryFolder folder_;
  std::string model_ = folder_ / "model";
};

TEST_F(LinkedModel, OpensWithOneWarningThatNamesTheFolder) {
  const ModelFiles model = open_model(model_);
  EXPECT_EQ(model.tensors.size(), 2U);
  EXPECT_EQ(model.shards[0].file_name, "a.safetensors");
  const std::string store = fs::canonical(folder_ / "store").string();
  EXPECT_EQ(warnings_of(model_),
            std::vector{"W-LINK-OUTSIDE: a.safetensors, b.safetensors: links to " + store +
                        ", outside the model's folder"});
}

TEST_F(LinkedModel, AnotherModelsFolderIsNamedToo) {
  folder_.write("other/b.safetensors", shard_of("y"));
  link_second("../other/b.safetensors");
  const std::vector<std::string> warnings = warnings_of(model_);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(
      warnings[0].find("b.safetensors: a link to " + fs::canonical(folder_ / "other").string()),
      std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[1].find("a.safetensors: a link to "), std::string::npos) << warnings[1];
}

TEST_F(LinkedModel, ChainsOfLinksAreFollowedToTheirEnd) {
  fs::create_symlink("two", folder_ / "store/three");
  link_second("../store/three");
  EXPECT_EQ(warnings_of(model_).size(), 1U);
}

TEST_F(LinkedModel, NothingAtTheEndIsNamedWithItsTarget) {
  link_second("../store/absent");
  EXPECT_EQ(outcome_of(model_), "E-SHARD-MISSING 66");
  EXPECT_NE(message_of(model_).find("b.safetensors in " + model_ + " is a link to ../store/absent"),
            std::string::npos)
      << message_of(model_);
  link_second("b.safetensors");
  EXPECT_EQ(outcome_of(model_), "E-SHARD-MISSING 66");
  fs::create_symlink("there", folder_ / "store/here");
  fs::create_symlink("here", folder_ / "store/there");
  link_second("../store/here");
  EXPECT_EQ(outcome_of(model_), "E-SHARD-MISSING 66");
}

TEST_F(LinkedModel, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo((folder_ / "store/pipe").c_str(), 0600), 0);
  for (const std::string target : {"../store", "../store/pipe", "/dev/null", "/dev/zero"}) {
    link_second(target);
    EXPECT_EQ(outcome_of(model_), "E-FILE-KIND 66") << target;
  }
}

TEST_F(LinkedModel, NamesThatLeaveTheFolderByTheirTextStayRefused) {
  for (const std::string name : {"../store/two", "/etc/passwd", "..", "sub/b.safetensors"}) {
    folder_.write("model/" + std::string(kIndex),
                  R"({"weight_map":{"x":"a.safetensors","y":")" + name + R"("}})");
    EXPECT_EQ(outcome_of(model_), "E-INDEX-PATH 65") << name;
  }
}

TEST(LinksTest, WithinTheFolderNobodyIsWarned) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", shard_of("x"));
  folder.write("real", shard_of("y"));
  folder.write(kIndex, R"({"metadata":{"total_size":16},"weight_map":)"
                       R"({"x":"a.safetensors","y":"b.safetensors"}})");
  fs::create_symlink("real", folder / "b.safetensors");
  EXPECT_TRUE(warnings_of(folder.path()).empty());
  fs::create_directory_symlink(folder.path(), folder.path().string() + "-link");
  EXPECT_TRUE(warnings_of(folder.path().string() + "-link").empty());
  fs::remove(folder.path().string() + "-link");
}

TEST(LinksTest, ALinkToAFolderUnderAModelsNameIsToldOf) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "model");
  fs::create_directories(folder / "weights");
  fs::create_directory_symlink("../weights", folder / "model/model.safetensors");
  EXPECT_EQ(outcome_of(folder / "model"), "E-FILE-KIND 66");
}

TEST(LinksTest, GgufSplitsMayBeLinks) {
  const TemporaryFolder folder;
  folder.write("store/m.gguf", testing::small_gguf().bytes());
  fs::create_directories(folder / "model");
  fs::create_symlink("../store/m.gguf", folder / "model/m.gguf");
  const std::vector<std::string> warnings = warnings_of(folder / "model");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].rfind("W-LINK-OUTSIDE: m.gguf: a link to ", 0), 0U) << warnings[0];
}

/// A repository of a Hugging Face cache with one snapshot, whose files are links to blobs.
class CachedModel : public ::testing::Test {
 protected:
  CachedModel() {
    folder_.write("models--o--n/blobs/1111", shard_of("x"));
    folder_.write("models--o--n/blobs/2222", shard_of("y"));
    folder_.write("models--o--n/refs/main", "aaaa");
    add_snapshot("aaaa");
  }
  void add_snapshot(const std::string& revision) {
    const std::string snapshot = "models--o--n/snapshots/" + revision;
    write_index(folder_, snapshot);
    fs::create_symlink("../../blobs/1111", folder_ / (snapshot + "/a.safetensors"));
    fs::create_symlink("../../blobs/2222", folder_ / (snapshot + "/b.safetensors"));
  }
  TemporaryFolder folder_;
  std::string root_ = folder_ / "models--o--n";
};

TEST_F(CachedModel, LinksIntoItsBlobsAreAsTheyShouldBe) {
  EXPECT_TRUE(warnings_of(root_ + "/snapshots/aaaa").empty());
  EXPECT_EQ(open_model(root_ + "/snapshots/aaaa/a.safetensors").tensors.size(), 1U);
}

TEST_F(CachedModel, ItsRootStandsForItsOneSnapshot) {
  for (const std::string& path : {root_, root_ + "/", root_ + "/."}) {
    const ModelFiles model = open_model(path);
    EXPECT_EQ(model.tensors.size(), 2U);
    EXPECT_EQ(model.path, path);
    EXPECT_TRUE(model.warnings.empty());
  }
}

TEST_F(CachedModel, SeveralSnapshotsAreListed) {
  add_snapshot("bbbb");
  EXPECT_EQ(outcome_of(root_), "E-FOLDER-SEVERAL 65");
  EXPECT_NE(message_of(root_).find("aaaa, bbbb"), std::string::npos) << message_of(root_);
  EXPECT_EQ(outcome_of(root_ + "/snapshots/bbbb"), "");
}

TEST_F(CachedModel, WithoutASnapshotThereIsNothing) {
  fs::remove_all(root_ + "/snapshots/aaaa");
  EXPECT_EQ(outcome_of(root_), "E-FOLDER-EMPTY 66");
  fs::remove_all(root_ + "/snapshots");
  EXPECT_EQ(outcome_of(root_), "E-FOLDER-EMPTY 66");
}

TEST_F(CachedModel, ABlobThatIsAbsentIsNamed) {
  fs::remove(root_ + "/blobs/2222");
  EXPECT_EQ(outcome_of(root_), "E-SHARD-MISSING 66");
  EXPECT_NE(message_of(root_).find("../../blobs/2222"), std::string::npos) << message_of(root_);
}

}  // namespace
}  // namespace vindex::input::links_test
