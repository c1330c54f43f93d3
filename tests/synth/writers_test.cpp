#include "temporary_folder.hpp"

#include <vindex/core/error.hpp>
#include <vindex/shard/byte_source.hpp>
#include <vindex/shard/gguf.hpp>
#include <vindex/shard/model_files.hpp>
#include <vindex/synth/gguf_writer.hpp>
#include <vindex/synth/output_folder.hpp>
#include <vindex/synth/safetensors_writer.hpp>
#include <vindex/synth/synth.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace vindex::synth {
namespace {

namespace fs = std::filesystem;
using decode::ElementType;

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::byte> filled(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

// Files larger than this cannot be written while it lives: what a full disk looks like.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(SafetensorsWriter, WidestTensorsComeFirstAndStayAligned) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "m");
    SafetensorsWriter writer(folder.create("model.safetensors"),
                             {{"c", ElementType::kF8E4M3, {3, 5}},
                              {"b", ElementType::kBF16, {7}},
                              {"z", ElementType::kF32, {2}},
                              {"a", ElementType::kF32, {}},
                              {"empty", ElementType::kI64, {0, 4}}},
                             {{"format", "pt"}});
    writer.write(2, 0, filled(8, 2));
    writer.write(0, 5, filled(10, 1));
    writer.write(0, 0, filled(5, 9));
    writer.write(1, 0, filled(14, 3));
    writer.write(3, 0, filled(4, 4));
    writer.finish();
    folder.publish();
  }
  const auto files = shard::open_model(scratch / "m/model.safetensors");
  std::vector<std::string> names;
  for (const auto& tensor : files.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.offset % decode::element_type_row(tensor.type).block_bytes, 0U) << tensor.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"empty", "a", "z", "b", "c"}));
  std::vector<std::byte> bytes(15);
  files.shards[0].source->read(files.tensors.back().offset, bytes);
  EXPECT_EQ(std::to_integer<int>(bytes[4]), 9);
  EXPECT_EQ(std::to_integer<int>(bytes[5]), 1);
}

TEST(SafetensorsWriter, RefusesDoubleNamesAndRangesOutside) {
  const TemporaryFolder scratch;
  OutputFolder folder(scratch / "m");
  EXPECT_THROW(
      SafetensorsWriter(folder.create("a"),
                        {{"x", ElementType::kF32, {1}}, {"x", ElementType::kF32, {2}}}, {}),
      Error);
  SafetensorsWriter writer(folder.create("b"), {{"x", ElementType::kF32, {2}}}, {});
  EXPECT_THROW(writer.write(0, 4, filled(8, 0)), Error);
  EXPECT_THROW(writer.write(1, 0, filled(1, 0)), Error);
  writer.write(0, 0, filled(4, 0));
  EXPECT_THROW(writer.finish(), Error);
}

TEST(GgufWriter, KeysKeepOrderTypesAndValues) {
  const TemporaryFolder scratch;
  GgufKeys keys;
  keys.add_string("general.architecture", "test");
  keys.add_u16("a.u16", 65535);
  keys.add_u32("a.u32", 4000000000U);
  keys.add_i32("a.i32", -7);
  keys.add_f32("a.f32", 0.5F);
  keys.add_bool("a.bool", true);
  const std::vector<std::string> words = {"x", "", "\xC3\xA9"};
  keys.add_strings("a.words", words);
  const std::vector<std::int32_t> numbers = {-1, 2};
  keys.add_i32s("a.numbers", numbers);
  const double wide = 2.5;
  keys.add_raw("a.f64", 12, std::as_bytes(std::span(&wide, 1)));
  EXPECT_THROW(keys.add_u32("a.u32", 1), Error);
  {
    OutputFolder folder(scratch / "m");
    GgufWriter writer(
        folder.create("m.gguf"), keys,
        {{"first.weight", ElementType::kQ8_0, {32, 3}}, {"second.weight", ElementType::kF32, {5}}});
    writer.write(1, 0, filled(20, 7));
    writer.write(0, 0, filled(102, 6));
    writer.finish();
    folder.publish();
  }
  const auto source = shard::open_file_source(scratch / "m/m.gguf");
  const auto header = shard::read_gguf_header(*source);
  EXPECT_EQ(header.version, 3U);
  ASSERT_EQ(header.keys.size(), 9U);
  EXPECT_EQ(header.keys[1].type, shard::GgufType::kU16);
  EXPECT_EQ(std::get<std::uint64_t>(header.keys[2].value), 4000000000U);
  EXPECT_EQ(std::get<std::int64_t>(header.keys[3].value), -7);
  EXPECT_EQ(std::get<double>(header.keys[4].value), 0.5);
  EXPECT_EQ(header.keys[5].type, shard::GgufType::kBool);
  EXPECT_EQ(header.keys[6].array_count, 3U);
  EXPECT_EQ(header.keys[7].integers, (std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(std::get<double>(header.keys[8].value), 2.5);
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].dimensions, (std::vector<std::uint64_t>{32, 3}));
  // 102 bytes are padded to 128, 20 to 32: the file ends on the alignment.
  EXPECT_EQ(header.tensors[1].offset - header.tensors[0].offset, 128U);
  EXPECT_EQ(source->size(), header.data_offset + 128 + 32);
  EXPECT_EQ(header.data_offset % 32, 0U);
}

TEST(GgufWriter, RefusesWhatGgmlRefuses) {
  const TemporaryFolder scratch;
  OutputFolder folder(scratch / "m");
  const GgufKeys keys;
  const std::vector<std::vector<GgufTensorLayout>> bad = {
      {{std::string(64, 'x'), ElementType::kF32, {1}}},
      {{"", ElementType::kF32, {1}}},
      {{"x", ElementType::kF32, {1}}, {"x", ElementType::kF32, {1}}},
      {{"x", ElementType::kQ8_0, {33}}},
      {{"x", ElementType::kF32, {1, 1, 1, 1, 1}}},
      {{"x", ElementType::kF8E4M3, {32}}},
      {{"x", ElementType::kF32, {std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}}},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_THROW(GgufWriter(folder.create(std::to_string(i)), keys, bad[i]), Error) << i;
  }
}

TEST(OutputFolder, NothingStaysWithoutPublish) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "new/inner");
    folder.write_text("a", "text");
    EXPECT_TRUE(fs::exists(scratch / "new/inner/a.partial"));
    EXPECT_FALSE(fs::exists(scratch / "new/inner/a"));
  }
  EXPECT_FALSE(fs::exists(scratch / "new/inner"));
  fs::create_directory(scratch / "there");
  { OutputFolder(scratch / "there").write_text("a", "text"); }
  EXPECT_TRUE(fs::is_empty(scratch / "there"));
}

TEST(OutputFolder, PublishesEveryFileUnderItsName) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("a", "one");
    folder.write_text("b", "two");
    folder.publish();
  }
  EXPECT_EQ(read_text(scratch / "m/a"), "one");
  EXPECT_EQ(read_text(scratch / "m/b"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "m"), fs::directory_iterator()), 2);
}

TEST(OutputFolder, AFileInTheWayIsNamed) {
  const TemporaryFolder scratch;
  std::ofstream(scratch / "file") << "x";
  try {
    make_model("layer:1x8x8:bf16", 0, scratch / "file");
    FAIL() << "a file was taken for a folder";
  } catch (const OutputError& error) {
    EXPECT_EQ(error.id(), "E-OUTPUT-NOT-A-FOLDER");
  }
  EXPECT_THROW(make_model("layer:1x8x8:bf16", 0, scratch / "file/below"), Error);
}

TEST(OutputFolder, AFullDiskLeavesNothing) {
  const TemporaryFolder scratch;
  for (const char* spec : {"kimi-k2-mini", "kimi-k2-mini-q8_0", "layer:4x256x256:fp8"}) {
    SCOPED_TRACE(spec);
    const FileSizeLimit limit(100'000);
    try {
      make_model(spec, 0, scratch / "m");
      FAIL() << "a full disk was not noticed";
    } catch (const SystemError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kInputOutput);
      EXPECT_EQ(error.error_number(), EFBIG);
    }
    EXPECT_FALSE(fs::exists(scratch / "m"));
  }
}

}  // namespace
}  // namespace vindex::synth
