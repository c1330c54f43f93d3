// What the writer of GGUF files gives: keys, order, alignment, and the refusal of what ggml would
// not load.
#include "gguf/writing/writer.hpp"

#include "gguf/header.hpp"
#include "gguf/read_header.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "write/output_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::gguf::writer_test {
namespace {

using decode::ElementType;
using testing::file_text;
using testing::filled;
using testing::TemporaryFolder;

TEST(GgufWriter, KeysKeepOrderTypesAndValues) {
  const TemporaryFolder scratch;
  KeySection keys;
  keys.add_string("general.architecture", "test");
  keys.add<std::uint16_t>("a.u16", 65535);
  keys.add<std::uint32_t>("a.u32", 4000000000U);
  keys.add<std::int32_t>("a.i32", -7);
  keys.add<float>("a.f32", 0.5F);
  keys.add<bool>("a.bool", true);
  const std::vector<std::string> words = {"x", "", "\xC3\xA9"};
  keys.add_strings("a.words", words);
  const std::vector<std::int32_t> numbers = {-1, 2};
  keys.add_array<std::int32_t>("a.numbers", numbers);
  keys.add<double>("a.f64", 2.5);
  EXPECT_EQ(testing::error_of([&] { keys.add<std::uint32_t>("a.u32", 1); }), "E-GGUF-KEY");
  EXPECT_EQ(testing::error_of([&] { keys.add<bool>("", true); }), "E-GGUF-KEY");
  EXPECT_EQ(testing::error_of([&] { keys.add<bool>(std::string(65536, 'k'), true); }),
            "E-GGUF-KEY");
  {
    write::OutputFolder folder(scratch / "m");
    Writer writer(
        folder.create("m.gguf"), keys,
        {{"first.weight", ElementType::kQ8_0, {32, 3}}, {"second.weight", ElementType::kF32, {5}}});
    writer.write(1, 0, filled(20, 7));
    writer.write(0, 0, filled(102, 6));
    writer.finish();
    folder.publish();
  }
  const auto source = input::open_file_source(scratch / "m/m.gguf");
  const auto header = read_header(*source);
  EXPECT_EQ(header.version, 3U);
  ASSERT_EQ(header.keys.size(), 9U);
  EXPECT_EQ(header.keys[1].type, ValueType::kU16);
  EXPECT_EQ(std::get<std::uint64_t>(header.keys[2].value), 4000000000U);
  EXPECT_EQ(std::get<std::int64_t>(header.keys[3].value), -7);
  EXPECT_EQ(std::get<double>(header.keys[4].value), 0.5);
  EXPECT_EQ(header.keys[5].type, ValueType::kBool);
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

TEST(GgufWriter, WhatGgmlRefusesIsAnErrorOfTheData) {
  const TemporaryFolder scratch;
  AtomicFile file(scratch / "m.gguf");
  const KeySection keys;
  const auto id_of = [&](const std::vector<TensorLayout>& tensors) {
    try {
      Writer(file, keys, tensors);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kMalformedInput) << error.what();
      return error.id();
    }
    return std::string("none");
  };
  EXPECT_EQ(id_of({{std::string(63, 'x'), ElementType::kF32, {1}}}), "none");
  EXPECT_EQ(id_of({{"rank zero", ElementType::kF32, {}}, {"none", ElementType::kF32, {0, 3}}}),
            "none");
  EXPECT_EQ(id_of({{std::string(64, 'x'), ElementType::kF32, {1}}}), "E-GGUF-NAME");
  EXPECT_EQ(id_of({{"", ElementType::kF32, {1}}}), "E-GGUF-NAME");
  EXPECT_EQ(id_of({{"x", ElementType::kF32, {1}}, {"x", ElementType::kF32, {1}}}), "E-GGUF-NAME");
  EXPECT_EQ(id_of({{"x", ElementType::kQ8_0, {33}}}), "E-GGUF-LAYOUT");
  EXPECT_EQ(id_of({{"x", ElementType::kF32, {1, 1, 1, 1, 1}}}), "E-GGUF-LAYOUT");
  EXPECT_EQ(id_of({{"x", ElementType::kF8E4M3, {32}}}), "E-GGUF-LAYOUT");
  const std::uint64_t large = std::uint64_t{1} << 40U;
  EXPECT_EQ(id_of({{"x", ElementType::kF32, {large, large}}}), "E-GGUF-LAYOUT");
  EXPECT_EQ(
      id_of({{"x", ElementType::kI8, {large << 22U}}, {"y", ElementType::kI8, {large << 22U}}}),
      "E-GGUF-LAYOUT");
}

TEST(GgufWriter, TheAlignmentIsThatOfTheKey) {
  const TemporaryFolder scratch;
  for (const std::uint32_t alignment : {1U, 8U, 64U, 4096U}) {
    KeySection keys;
    keys.add<std::uint32_t>("general.alignment", alignment);
    const std::string path = scratch / std::to_string(alignment);
    {
      AtomicFile file(path);
      Writer writer(file, keys, {{"a", ElementType::kI8, {3}}, {"b", ElementType::kF32, {5}}});
      writer.write(0, 0, filled(3, 1));
      writer.write(1, 0, filled(20, 2));
      writer.finish();
      file.publish();
    }
    const auto source = input::open_file_source(path);
    const auto header = read_header(*source);
    EXPECT_TRUE(header.warnings.empty());
    EXPECT_EQ(header.alignment, alignment);
    EXPECT_EQ(header.data_offset % alignment, 0U);
    EXPECT_EQ(header.tensors[1].offset - header.tensors[0].offset,
              (2 + alignment) / alignment * alignment);
    EXPECT_EQ(source->size() % alignment, 0U);
  }
  for (const std::uint32_t wrong : {0U, 3U, 48U}) {
    KeySection keys;
    keys.add<std::uint32_t>("general.alignment", wrong);
    AtomicFile file(scratch / "wrong");
    EXPECT_EQ(testing::error_of([&] { Writer(file, keys, {}); }), "E-GGUF-ALIGNMENT");
  }
  KeySection keys;
  keys.add<std::uint64_t>("general.alignment", 32);
  EXPECT_EQ(testing::error_of([&] { static_cast<void>(keys.alignment()); }), "E-GGUF-ALIGNMENT");
}

// One key of every type and of every array type, in every container that is read.
testing::GgufBuilder every_key(std::uint32_t version, bool big_endian) {
  testing::GgufBuilder builder(version, big_endian);
  const auto number = [&](std::uint64_t value, std::size_t width) {
    return testing::in_order(testing::little_endian(value).substr(0, width), big_endian);
  };
  constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (std::uint32_t type = 0; type < 13; ++type) {
    if (type == 9) {
      continue;
    }
    const std::string name = "k" + std::to_string(type);
    const auto value = [&](std::uint64_t i) {
      return type == 8   ? builder.text("text " + std::to_string(i))
             : type == 7 ? number(i % 2, 1)
                         : number(0x8182838485868788U + i, kWidths[type]);
    };
    builder.key(name, type, value(0));
    std::string elements;
    for (std::uint64_t i = 0; i < 5; ++i) {
      elements += value(i);
    }
    builder.key_array(name + ".array", type, 5, elements);
    builder.key_array(name + ".empty", type, 0, "");
  }
  std::string many;
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    many += builder.number(i);
  }
  builder.key_array("many", 4, 30'000, many);
  return builder;
}

TEST(KeySection, CopiesEveryTypeOfEveryContainer) {
  const TemporaryFolder scratch;
  const std::string wanted = every_key(3, false).bytes();
  const std::pair<std::uint32_t, bool> containers[] = {
      {3, false}, {2, false}, {1, false}, {3, true}, {2, true}};
  for (const auto& [version, big_endian] : containers) {
    const std::string bytes = every_key(version, big_endian).bytes();
    const auto source = input::make_memory_source("memory", testing::bytes_of(bytes));
    const auto header = read_header(*source);
    KeySection keys;
    for (const Key& key : header.keys) {
      keys.copy(key, header, *source);
    }
    AtomicFile file(scratch / "m.gguf");
    Writer(file, keys, {}).finish();
    file.publish();
    EXPECT_TRUE(file_text(scratch / "m.gguf") == wanted) << version << big_endian;
  }
}

}  // namespace
}  // namespace vindex::gguf::writer_test
