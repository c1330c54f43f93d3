// Files put together from tensors of others, read back with this project's reader.
#include "organ/writing/compose.hpp"

#include "core/digest.hpp"
#include "core/files/process_name.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "organ/opening/open_gguf.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stop_token>

namespace vindex::organ::compose_test {
namespace {

using testing::error_of;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

TEST(ComposeTest, WhatPassesThroughIsTheSameFile) {
  const TemporaryFolder folder;
  const std::string bytes = testing::small_gguf().bytes();
  const auto source = open_gguf(folder.write("a.gguf", bytes));
  const ComposeReport report =
      compose(single_file(source->copy_keys(), passed_through(*source)), folder / "b.gguf");
  EXPECT_EQ(file_text(folder / "b.gguf"), bytes);
  EXPECT_EQ(report.bytes, bytes.size());
  EXPECT_EQ(report.cloned + report.kernel + report.read, 32U + 36U);
  EXPECT_EQ(report.files, std::vector{folder / "b.gguf"});
}

TEST(ComposeTest, ForeignContainersAreNormalised) {
  const TemporaryFolder folder;
  const std::string bytes = testing::small_gguf().bytes();
  for (const std::uint32_t version : {1U, 2U}) {
    const auto source = open_gguf(folder.write("old.gguf", testing::small_gguf(version).bytes()));
    compose(single_file(source->copy_keys(), passed_through(*source)), folder / "new.gguf",
            {.replace = true});
    EXPECT_EQ(file_text(folder / "new.gguf"), bytes) << version;
  }
}

TEST(ComposeTest, TensorsAreMadeInAnyOrder) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  std::vector<ComposedTensor> tensors = passed_through(*source);
  tensors[1].source = nullptr;
  tensors[1].make = [](const TensorSink& sink) {
    sink(20, testing::filled(16, 'z'));
    sink(0, testing::filled(20, 'y'));
  };
  compose(single_file(source->copy_keys(), tensors), folder / "b.gguf");
  const auto made = open_gguf(folder / "b.gguf");
  std::vector<std::byte> bytes(36);
  made->read(made->tensors()[1], 0, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(bytes.data()), 36),
            std::string(20, 'y') + std::string(16, 'z'));
}

TEST(ComposeTest, SplitsAreReadAsOneModel) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  const ComposeReport report =
      compose(split_by_size(source->copy_keys(), passed_through(*source), 40), folder / "b.gguf");
  ASSERT_EQ(report.files,
            (std::vector{folder / "b-00001-of-00002.gguf", folder / "b-00002-of-00002.gguf"}));
  const input::ModelFiles model = input::open_model(report.files.back());
  EXPECT_EQ(model.tensors.size(), 2U);
  EXPECT_EQ(model.keys.size(), 5U);
  const auto again = open_gguf(report.files.front());
  EXPECT_EQ(again->splits().size(), 2U);
  EXPECT_EQ(again->splits()[1].header.keys.size(), 3U);
  EXPECT_EQ(again->key("split.no")->type, gguf::ValueType::kU16);
  EXPECT_EQ(again->key("split.count")->type, gguf::ValueType::kU16);
  EXPECT_EQ(again->key("split.tensors.count")->type, gguf::ValueType::kI32);
  // All in one again, without the keys of a set.
  compose(
      single_file(again->copy_keys(0, [](const gguf::Key& key) { return !is_split_key(key.name); }),
                  passed_through(*again)),
      folder / "c.gguf");
  EXPECT_EQ(file_text(folder / "c.gguf"), testing::small_gguf().bytes());
}

TEST(ComposeTest, OneFileWhereAllFits) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  EXPECT_EQ(split_by_size(source->copy_keys(), passed_through(*source), 0).files.size(), 1U);
  EXPECT_EQ(split_by_size(source->copy_keys(), passed_through(*source), 68).files.size(), 1U);
  EXPECT_EQ(split_by_size(source->copy_keys(), passed_through(*source), 67).files.size(), 2U);
  EXPECT_EQ(split_by_size(source->copy_keys(), passed_through(*source), 1).files.size(), 2U);
}

TEST(ComposeTest, NothingIsWrittenOverAnInput) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.gguf", testing::small_gguf().bytes());
  const auto source = open_gguf(path);
  const Composition composition = single_file(source->copy_keys(), passed_through(*source));
  std::filesystem::create_symlink("a.gguf", folder / "link.gguf");
  for (const std::string& target : {path, folder / "link.gguf"}) {
    EXPECT_EQ(error_of([&] { compose(composition, target, {.replace = true}); }),
              "E-OUTPUT-SOURCE");
  }
  folder.write("other.gguf", "x");
  EXPECT_EQ(error_of([&] { compose(composition, folder / "other.gguf"); }), "E-OUTPUT-EXISTS");
  EXPECT_EQ(file_text(path), testing::small_gguf().bytes());
}

TEST(ComposeTest, WhatCannotBeMadeIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  const Composition composition = single_file(source->copy_keys(), passed_through(*source));
  for (const std::string& target : {folder / "absent/b.gguf", folder / "a.gguf/b.gguf",
                                    folder / (std::string(256, 'n') + ".gguf")}) {
    EXPECT_EQ(error_of([&] { compose(composition, target); }), "E-OUTPUT-WRITE") << target;
  }
  EXPECT_EQ(error_of([&] { compose(composition, folder.path()); }), "E-OUTPUT-NOT-A-FILE");
  Composition unnamed = split_by_size(source->copy_keys(), passed_through(*source), 1);
  unnamed.tensors[1].layout.name = std::string(64, 'n');
  EXPECT_EQ(error_of([&] { compose(unnamed, folder / "b.gguf"); }), "E-GGUF-NAME");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.gguf"});
}

TEST(ComposeTest, WhatAKilledRunLeftIsRemoved) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  const std::string dead = ".tmp." + host_name() + ".999999999.1.0";
  folder.write("b-00001-of-00002.gguf" + dead, "half");
  folder.write("b-00002-of-00002.gguf" + dead, "half");
  compose(split_by_size(source->copy_keys(), passed_through(*source), 1), folder / "b.gguf");
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"}));
}

TEST(ComposeTest, ADigestThatDiffersIsRefusedAndNothingIsLeft) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  std::vector<ComposedTensor> tensors = passed_through(*source);
  tensors[0].sha256 = hex(sha256(std::string(32, 'a')));
  compose(single_file(source->copy_keys(), tensors), folder / "b.gguf");
  EXPECT_EQ(file_text(folder / "b.gguf"), testing::small_gguf().bytes());
  tensors[1].sha256 = hex(sha256("something else"));
  EXPECT_EQ(
      error_of([&] { compose(single_file(source->copy_keys(), tensors), folder / "c.gguf"); }),
      "E-ORGAN-DIGEST");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"a.gguf", "b.gguf"}));
}

TEST(ComposeTest, StoppedLeavesNothing) {
  const TemporaryFolder folder;
  const auto source = open_gguf(folder.write("a.gguf", testing::small_gguf().bytes()));
  std::stop_source stop;
  stop.request_stop();
  const ComposeReport report = compose(single_file(source->copy_keys(), passed_through(*source)),
                                       folder / "b.gguf", {.stop = stop.get_token()});
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.gguf"});
}

TEST(ProvenanceTest, ParentsHistoryAndTypesAreTold) {
  const TemporaryFolder folder;
  testing::GgufBuilder builder;
  builder.key_string("general.architecture", "llama").key_string("general.name", "Host");
  builder.key_string("general.uuid", "1234").key_u32("general.file_type", 1);
  builder.key_string("general.repo_url", "https://example.org/host");
  builder.key_string("quantize.imatrix.file", "x").key_u16("split.no", 0).key_u16("split.count", 0);
  builder.key_array("general.tags", 8, 1, testing::gguf_string("chat"));
  builder.tensor("b.weight", {64, 2}, 2, 0);
  builder.data = std::string(96, 'b');
  const auto host = open_gguf(folder.write("a.gguf", builder.bytes()));
  const auto donor = open_gguf(folder.write("d.gguf", testing::small_gguf().bytes()));
  const std::vector<ComposedTensor> tensors = passed_through(*host);
  EXPECT_EQ(majority_file_type(tensors), 2U);
  Provenance provenance;
  provenance.parents = {host.get(), donor.get()};
  provenance.history = "graft of d.gguf";
  compose(single_file(changed_keys(*host, tensors, provenance), tensors), folder / "b.gguf");
  const auto made = open_gguf(folder / "b.gguf");
  EXPECT_EQ(made->number("general.base_model.count"), 2U);
  EXPECT_EQ(made->text("general.base_model.0.name"), "Host");
  EXPECT_EQ(made->text("general.base_model.0.uuid"), "1234");
  EXPECT_EQ(made->text("general.base_model.0.repo_url"), "https://example.org/host");
  EXPECT_EQ(made->text("general.base_model.1.name"), "d.gguf");
  EXPECT_EQ(made->number("general.file_type"), 2U);
  EXPECT_EQ(made->number("general.quantization_version"), 2U);
  EXPECT_EQ(made->key("general.tags")->array_count, 2U);
  EXPECT_EQ(made->key("organ.history")->array_count, 1U);
  for (const char* gone : {"general.uuid", "quantize.imatrix.file", "split.no", "split.count"}) {
    EXPECT_EQ(made->key(gone), nullptr) << gone;
  }
}

}  // namespace
}  // namespace vindex::organ::compose_test
