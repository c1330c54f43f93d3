// .npy headers: what numpy writes is read, and one thing wrong each.
#include "input/npy/npy.hpp"

#include "input/npy/array_files.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/faulty_source.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace vindex::input::npy_test {
namespace {

using testing::at_byte;
using testing::bytes_of;
using testing::npy_array;
using testing::npy_dict;
using testing::npy_file;
using testing::TemporaryFolder;

constexpr std::uint64_t kDict = 10;  // of version 1.0

NpyHeader parse(const std::string& bytes) {
  const auto source = make_memory_source("memory.npy", bytes_of(bytes));
  return read_npy_header(*source);
}

std::string error_of(const std::string& bytes) {
  return testing::error_of([&] { parse(bytes); });
}

std::string dict_error(const std::string& dict, std::size_t data_bytes = 0) {
  return error_of(npy_file(dict, std::string(data_bytes, 'd')));
}

std::string message_of(const std::string& bytes) {
  return testing::message_of([&] { parse(bytes); });
}

TEST(NpyTest, AnArrayHasTypeShapeAndPlace) {
  const std::string bytes = npy_array<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const NpyHeader header = parse(bytes);
  EXPECT_EQ(header.type, decode::ElementType::kF32);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.offset, 128U);
  EXPECT_EQ(header.bytes, 24U);
  EXPECT_EQ(header.header_sha256.size(), 64U);
}

TEST(NpyTest, AllVersionsOrdersOfKeysAndQuotesAreRead) {
  const std::string other = R"({"shape":(1,4),"fortran_order":False,'descr':"<f2"})";
  for (const int version : {1, 2, 3}) {
    const NpyHeader header = parse(npy_file(other + "   \n", std::string(8, 'd'), version));
    EXPECT_EQ(header.type, decode::ElementType::kF16) << version;
    EXPECT_EQ(header.shape, (std::vector<std::int64_t>{1, 4})) << version;
  }
}

TEST(NpyTest, EveryTypeHasItsSize) {
  const std::vector<std::pair<const char*, std::size_t>> types = {
      {"<f2", 2}, {"<f4", 4}, {"<f8", 8}, {"|i1", 1}, {"<i2", 2}, {"<i4", 4}, {"<i8", 8},
      {"|u1", 1}, {"<u2", 2}, {"<u4", 4}, {"<u8", 8}, {"|b1", 1}, {"<i1", 1}};
  for (const auto& [descr, bytes] : types) {
    const std::string dict = npy_dict(descr, "(3,)");
    EXPECT_EQ(dict_error(dict, 3 * bytes), "none") << descr;
    EXPECT_EQ(dict_error(dict, 3 * bytes + 1), at_byte("E-NPY-SIZE", kDict + dict.size())) << descr;
    EXPECT_EQ(dict_error(dict, 3 * bytes - 1), at_byte("E-NPY-SIZE", kDict + dict.size())) << descr;
  }
}

TEST(NpyTest, ScalarsAndEmptyArraysAreArrays) {
  EXPECT_TRUE(parse(npy_array<double>({1.0}, {})).shape.empty());
  EXPECT_EQ(parse(npy_array<float>({}, {0, 4})).bytes, 0U);
  EXPECT_EQ(parse(npy_array<std::int64_t>({7}, {1})).shape, std::vector<std::int64_t>{1});
}

TEST(NpyTest, WhatNumpyWritesAndThisDoesNotReadSaysWhatToDo) {
  const auto message = [](const std::string& dict) { return message_of(npy_file(dict, "")); };
  EXPECT_NE(message(npy_dict("<f4", "(2, 2)", "True")).find("numpy.ascontiguousarray"),
            std::string::npos);
  EXPECT_NE(message(npy_dict(">f4", "(2,)")).find("newbyteorder"), std::string::npos);
  EXPECT_NE(message(npy_dict("|O", "(2,)")).find("pickle"), std::string::npos);
  EXPECT_NE(message(npy_dict("<V2", "(2,)")).find("bfloat16"), std::string::npos);
  EXPECT_NE(message("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }")
                .find("each field"),
            std::string::npos);
  EXPECT_EQ(dict_error(npy_dict("<c8", "(2,)"), 16), at_byte("E-NPY-DTYPE", kDict + 10));
  EXPECT_EQ(dict_error(npy_dict("<U4", "(2,)"), 32), at_byte("E-NPY-DTYPE", kDict + 10));
  EXPECT_EQ(dict_error(npy_dict("<f4", "(2, 2)", "True"), 16), at_byte("E-NPY-ORDER", kDict + 34));
}

std::vector<float> floats_in(const std::string& bytes) {
  const auto source = make_memory_source("memory.npy", bytes_of(bytes));
  return read_npy_floats(*source, read_npy_header(*source));
}

template <typename Value>
std::vector<float> floats_of(const std::vector<Value>& values) {
  return floats_in(npy_array(values, {static_cast<std::int64_t>(values.size())}));
}

TEST(NpyTest, NumbersAreReadAsFloats) {
  EXPECT_EQ(floats_of<float>({1.5F, -2.25F, 1e30F}), (std::vector<float>{1.5F, -2.25F, 1e30F}));
  // Halves of the last place go to even.
  EXPECT_EQ(floats_of<double>({0.1, 1.0 + 0x1p-24, 1.0 + 0x3p-24}),
            (std::vector<float>{0.1F, 1.0F, 1.0F + 0x1p-22F}));
  EXPECT_EQ(floats_of<std::int32_t>({-7, 16'777'217}), (std::vector<float>{-7.0F, 16'777'216.0F}));
  EXPECT_TRUE(floats_of<float>({}).empty());
  EXPECT_EQ(floats_in(npy_file(npy_dict("<f2", "(2, 1)"), {'\x01', '<', '\0', '\xc0'})),
            (std::vector<float>{1.0F + 0x1p-10F, -2.0F}));
  EXPECT_EQ(floats_of<std::uint16_t>({65'535}), std::vector<float>{65'535.0F});
  EXPECT_EQ(testing::error_of([] { floats_in(npy_file(npy_dict("|b1", "(2,)"), "\1\1")); }),
            "E-NPY-DTYPE");
}

TEST(NpyTest, TheBeginningIsChecked) {
  const std::string good = npy_array<float>({1, 2}, {2});
  EXPECT_EQ(error_of(""), at_byte("E-NPY-MAGIC", 0));
  EXPECT_EQ(error_of("NUMPY\x93 and more"), at_byte("E-NPY-MAGIC", 0));
  EXPECT_EQ(error_of(good.substr(0, 7)), at_byte("E-NPY-LENGTH", 0));
  EXPECT_EQ(error_of(good.substr(0, 9)), at_byte("E-NPY-LENGTH", 0));
  EXPECT_EQ(error_of(good.substr(0, 60)), at_byte("E-NPY-LENGTH", 8));
  for (const int version : {0, 4, 255}) {
    EXPECT_EQ(error_of(npy_file(npy_dict("<f4", "(2,)"), "12345678", version)),
              at_byte("E-NPY-VERSION", 6));
  }
  std::string minor = good;
  minor[7] = 1;
  EXPECT_EQ(error_of(minor), at_byte("E-NPY-VERSION", 6));
  // A length that no file holds takes no memory.
  std::string huge = npy_file("{}", "", 2);
  huge[8] = huge[9] = huge[10] = huge[11] = '\xff';
  EXPECT_EQ(error_of(huge), at_byte("E-NPY-LENGTH", 8));
}

TEST(NpyTest, NoOtherPythonIsRead) {
  const std::string rest = "'fortran_order': False, 'shape': (2,), }";
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  for (const std::string& dict :
       std::vector<std::string>{"",
                                "[]",
                                "{}",
                                "{'descr': '<f4'}",
                                "dict(descr='<f4')",
                                "{'descr': <f4, " + rest,
                                "{'descr': '<f4",
                                "{'descr': <f4', " + rest,
                                "{'descr': '<\\x66\\x34', " + rest,
                                "{'descr': b'<f4', " + rest,
                                "{'descr': '<f4' 'descr': '<f4', " + rest,
                                "{'descr': '<f4', 'descr': '<f4', " + rest,
                                "{'descr': '<f4', 'more': 1, " + rest,
                                "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }",
                                "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2,), }",
                                start + "2}",
                                start + "(2)}",
                                start + "[2]}",
                                start + "(-2,)}",
                                start + "(+2,)}",
                                start + "(02,)}",
                                start + "(2.0,)}",
                                start + "(2L,)}",
                                start + "(1_0,)}",
                                start + "(0x2,)}",
                                start + "(True,)}",
                                start + "(,)}",
                                start + "(2,,)}",
                                start + "((2,),)}",
                                start + "(2, 1}",
                                start + "(2,",
                                start + "(2,)} + 1",
                                start + "(2,)}\x01",
                                start + "__import__('os').system('true')}"}) {
    EXPECT_EQ(dict_error(dict, 8).substr(0, 12), "E-NPY-HEADER") << dict;
  }
}

TEST(NpyTest, SidesThatOverflowAreRefused) {
  EXPECT_EQ(dict_error(npy_dict("<f4", "(18446744073709551616,)")).substr(0, 11), "E-NPY-SHAPE");
  EXPECT_EQ(dict_error(npy_dict("<f4", "(9223372036854775808,)")).substr(0, 11), "E-NPY-SHAPE");
  EXPECT_EQ(dict_error(npy_dict("<f4", "(4294967296, 4294967296)")).substr(0, 11), "E-NPY-SHAPE");
  EXPECT_EQ(dict_error(npy_dict("<f8", "(2305843009213693952,)")).substr(0, 11), "E-NPY-SHAPE");
  // A zero hides nothing.
  EXPECT_EQ(dict_error(npy_dict("<f4", "(4294967296, 4294967296, 0)")).substr(0, 11),
            "E-NPY-SHAPE");
  std::string sides = "(";
  for (int i = 0; i < 65; ++i) {
    sides += "1, ";
  }
  EXPECT_EQ(dict_error(npy_dict("<f4", sides + ")"), 4).substr(0, 11), "E-NPY-SHAPE");
}

TEST(NpyTest, EveryShorterFileIsRefused) {
  const std::string good = npy_array<float>({1, 2, 3, 4}, {2, 2});
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_NE(error_of(good.substr(0, bytes)), "none") << bytes;
  }
  EXPECT_EQ(error_of(good), "none");
}

TEST(ArrayFilesTest, AFolderIsAllItsArrays) {
  const TemporaryFolder folder;
  folder.write("hidden.1.npy", npy_array<float>({1, 2}, {2, 1}));
  folder.write("hidden.0.npy", npy_array<float>({3, 4}, {2, 1}));
  folder.write(".hidden.9.npy", "not looked at");
  folder.write("notes.txt", "not looked at");
  const ModelFiles files = open_array_files(folder.path());
  ASSERT_EQ(files.tensors.size(), 2U);
  EXPECT_EQ(files.tensors[0].name, "hidden.0");
  EXPECT_EQ(files.tensors[1].name, "hidden.1");
  EXPECT_EQ(files.tensors[1].shard, 1);
  EXPECT_EQ(files.shards[1].file_name, "hidden.1.npy");
}

TEST(ArrayFilesTest, ContentDecidesNotTheName) {
  const TemporaryFolder folder;
  const std::string array = folder.write("array.bin", npy_array<float>({1}, {1, 1}));
  EXPECT_EQ(open_array_files(array).tensors.front().name, "array.bin");
  folder.write("liar.npy", "GGUF, really");
  EXPECT_EQ(testing::error_of([&] { open_array_files(folder / "liar.npy"); }),
            at_byte("E-NPY-MAGIC", 0));
}

TEST(ArrayFilesTest, EmptyAndAbsentFoldersAreNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(testing::error_of([&] { open_array_files(folder.path()); }), "E-FOLDER-EMPTY");
  EXPECT_NE(testing::error_of([&] { open_array_files(folder / "absent"); }), "none");
}

// A sparse file: what a header says of 2^40 bytes is believed only as far as the file goes.
TEST(ArrayFilesTest, ALargeArrayIsOpenedWithoutItsBytes) {
  const TemporaryFolder folder;
  const std::string dict = npy_dict("<f4", "(274877906944, 1)");
  const std::string path = folder.write("hidden.0.npy", npy_file(dict, ""));
  EXPECT_EQ(testing::error_of([&] { open_array_files(path); }),
            at_byte("E-NPY-SIZE", kDict + dict.size()));
  std::error_code refused;
  std::filesystem::resize_file(path, kDict + dict.size() + (std::uint64_t{1} << 40U), refused);
  if (refused) {
    GTEST_SKIP() << "no sparse file of 1 TB here: " << refused.message();
  }
  const ModelFiles files = open_array_files(path);
  EXPECT_EQ(files.tensors.front().shape, (std::vector<std::int64_t>{274877906944, 1}));
  EXPECT_EQ(files.tensors.front().bytes, std::uint64_t{1} << 40U);
}

}  // namespace
}  // namespace vindex::input::npy_test
