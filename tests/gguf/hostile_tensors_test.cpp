// GGUF tensor tables with one field wrong, types that are refused, files cut short and reads that
// fail; the patterns are those of public advisories.
#include "hostile.hpp"

#include "tests/support/faulty_source.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::gguf::hostile_tensors_test {
namespace {

using testing::at_byte;
using testing::bytes_of;
using testing::Fault;
using testing::FaultySource;

std::string type_error(std::uint32_t type) {
  GgufBuilder builder;
  builder.tensor("a", {256}, type, 0);
  builder.data = std::string(4096, '\0');
  const std::string bytes = builder.bytes();
  const auto source = input::make_memory_source("memory.gguf", bytes_of(bytes));
  try {
    read_header(*source);
  } catch (const FormatError& error) {
    EXPECT_EQ(error.id(), "E-GGUF-TYPE");
    return error.what();
  }
  return "none";
}

// CVE-2024-21802: dimensions written past a fixed array; gguf-py issue 25401: a million of them.
TEST(GgufHostileTensorsTest, MoreThanFourDimensionsCve2024_21802) {
  for (const std::uint32_t rank : {5U, 8U, 1'000'000U, 0xFFFFFFFFU}) {
    GgufBuilder builder;
    builder.raw_tensor("a", rank, std::string(40, '\1'), 0, 0);
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-DIMENSIONS", builder.rank_position(0)));
  }
}

// Products that wrap to something small or to zero (CVE-2026-33298, gguf-py issue 25401), and a
// zero that hides the others' overflow.
TEST(GgufHostileTensorsTest, DimensionProductsCve2026_33298) {
  const std::uint64_t two32 = std::uint64_t{1} << 32U;
  const std::vector<std::vector<std::uint64_t>> shapes = {
      {kAllOnes},          {kTwoTo63},
      {two32, two32},      {two32, two32, 0},
      {4, kTwoTo63 / 2},   {two32, two32 / 2},
      {1, 1, kTwoTo63, 2}, {kAllOnes, kAllOnes, kAllOnes, kAllOnes}};
  for (const auto& shape : shapes) {
    GgufBuilder builder;
    builder.tensor("a", shape, 24, 0);
    builder.data = std::string(64, '\0');
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-SHAPE", builder.rank_position(0) + 4));
  }
}

TEST(GgufHostileTensorsTest, BytesThatOverflowThoughElementsDoNot) {
  GgufBuilder builder;
  builder.tensor("a", {kTwoTo63 - 8}, 28, 0);  // F64
  builder.data = std::string(64, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-SHAPE", builder.rank_position(0) + 4));
}

// Elements no multiple of the block (CVE-2024-42477): rows would share blocks.
TEST(GgufHostileTensorsTest, FirstDimensionsThatDoNotFillBlocksCve2024_42477) {
  for (const auto& shape : {std::vector<std::uint64_t>{33}, {16, 2}, {1, 32}, {}}) {
    GgufBuilder builder;
    builder.tensor("a", shape, 8, 0);
    builder.data = std::string(4096, '\0');
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-BLOCK", builder.rank_position(0) + 4));
  }
}

// Offset and size beyond the end of the file (CVE-2026-7482, "Bleeding Llama").
TEST(GgufHostileTensorsTest, DataBeyondTheFileCve2026_7482) {
  for (const std::uint64_t offset : {std::uint64_t{64}, std::uint64_t{1} << 40U, kAllOnes - 31}) {
    GgufBuilder builder = small_gguf();
    builder.tensor("c", {64}, 24, offset);
    builder.data.resize(96);
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-RANGE", builder.tensor_position(2)));
  }
  GgufBuilder cut = small_gguf();
  cut.data.resize(67);
  EXPECT_EQ(error_of(cut.bytes()), at_byte("E-GGUF-RANGE", cut.tensor_position(1)));
}

// Sums of sizes that wrap (CVE-2025-53630) and the bypass by two tensors near 2^63 bytes
// (CVE-2026-27940): each tensor is compared with the file, so no sum is ever believed.
TEST(GgufHostileTensorsTest, SumsOfSizesCve2025_53630AndCve2026_27940) {
  GgufBuilder builder;
  builder.tensor("a", {kTwoTo63 - 32}, 24, 0).tensor("b", {kTwoTo63 - 32}, 24, kTwoTo63 - 32);
  builder.tensor("c", {128}, 24, kAllOnes - 31);
  builder.data = std::string(128, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-RANGE", builder.tensor_position(0)));
}

TEST(GgufHostileTensorsTest, OffsetsMustBeAligned) {
  GgufBuilder builder;
  builder.tensor("a", {8}, 24, 16);
  builder.data = std::string(64, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-OFFSET", builder.offset_position(0)));
}

TEST(GgufHostileTensorsTest, TensorsMayNotOverlap) {
  GgufBuilder same;
  same.tensor("a", {8}, 24, 0).tensor("b", {8}, 24, 0);
  same.data = std::string(64, '\0');
  EXPECT_EQ(error_of(same.bytes()), at_byte("E-GGUF-OVERLAP", same.tensor_position(1)));
  GgufBuilder inside;
  inside.tensor("small", {8}, 24, 32).tensor("large", {96}, 24, 0);
  inside.data = std::string(96, '\0');
  EXPECT_EQ(error_of(inside.bytes()), at_byte("E-GGUF-OVERLAP", inside.tensor_position(0)));
}

// Type ids out of range (CVE-2024-42478), removed, for computing only, and of forks.
TEST(GgufHostileTensorsTest, RefusedTypesAreNamedCve2024_42478) {
  const std::vector<std::pair<std::uint32_t, const char*>> known = {
      {4, "Q4_2, removed"},
      {5, "Q4_3, removed"},
      {9, "Q8_1, used"},
      {15, "Q8_K, used"},
      {31, "Q4_0_4_4, removed"},
      {32, "Q4_0_4_8, removed"},
      {33, "Q4_0_8_8, removed"},
      {36, "I2_S of the forks bitnet.cpp and ik_llama.cpp"},
      {37, "I8_S of the fork bitnet.cpp"},
      {38, "TL1 of the fork bitnet.cpp"},
      {43, "unknown: a newer"},
      {0x80000000U, "unknown: a newer"},
      {0xFFFFFFFFU, "unknown: a newer"}};
  for (const auto& [type, name] : known) {
    EXPECT_NE(type_error(type).find(name), std::string::npos) << type;
  }
}

TEST(GgufHostileTensorsTest, TypesOfIkLlamaAreRefusedByForkAndName) {
  const std::vector<std::pair<std::uint32_t, const char*>> known = {
      {133, "is Q6_0, "},
      {134, "is IQ1_BN, "},
      {135, "is IQ2_BN, "},
      {137, "is IQ2_K, "},
      {138, "is IQ3_K, "},
      {139, "is IQ4_K, "},
      {140, "is IQ5_K, "},
      {141, "is IQ6_K, "},
      {144, "is IQ4_KS, "},
      {145, "is IQ2_KS, "},
      {146, "is IQ4_KSS, "},
      {152, "is IQ5_KS, "},
      {153, "is IQ2_KT, "},
      {154, "is IQ3_KT, "},
      {155, "is IQ4_KT, "},
      {156, "is IQ3_KS, "},
      {157, "is IQ2_KL, "},
      {158, "is IQ1_KT, "},
      {202, "is Q4_0_R4 or Q4_0_R8"},
      {212, "is Q4_K_R4 or Q4_K_R8"},
      {337, "is IQ2_K_R4 or IQ2_K_R8"},
      {159, "unknown, and"}};
  for (const auto& [type, name] : known) {
    const std::string error = type_error(type);
    EXPECT_NE(error.find(name), std::string::npos) << type << ": " << error;
    EXPECT_NE(error.find("ik_llama.cpp"), std::string::npos) << type;
  }
}

TEST(GgufHostileTensorsTest, TypesOfBitnetFilesAreThoseOfItsFork) {
  const auto message = [](const char* architecture, std::uint32_t type) {
    GgufBuilder builder;
    builder.key_string("general.architecture", architecture).tensor("a", {32}, type, 0);
    builder.data = std::string(32, '\0');
    const std::string bytes = builder.bytes();
    const auto source = input::make_memory_source("memory.gguf", bytes_of(bytes));
    try {
      read_header(*source);
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(message("llama", 39), "none");
  for (const char* architecture : {"bitnet-b1.58", "bitnet", "bitnet-25"}) {
    EXPECT_NE(message(architecture, 39).find("type 39 is TL2 of the fork bitnet.cpp"),
              std::string::npos);
    EXPECT_NE(message(architecture, 36).find("type 36 is I2_S of the fork bitnet.cpp,"),
              std::string::npos);
    EXPECT_EQ(message(architecture, 24), "none");
  }
}

// A file of the fork whose architecture does not say so: the sizes of its data do.
TEST(GgufHostileTensorsTest, TypeThirtyNineOfAnotherSizeNamesTl2) {
  GgufBuilder builder;
  builder.key_string("general.architecture", "llama");
  builder.tensor("a", {256}, 39, 0).tensor("b", {8}, 24, 64);
  builder.data = std::string(96, '\0');
  const std::string bytes = builder.bytes();
  const auto source = input::make_memory_source("memory.gguf", bytes_of(bytes));
  try {
    read_header(*source);
    ADD_FAILURE() << "accepted";
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("TL2 of the fork bitnet.cpp"), std::string::npos);
  }
}

// A short read that is not noticed (CVE-2024-41130, CVE-2024-32878): cut at every byte, a file is
// refused, or complete but for its final padding.
TEST(GgufHostileTensorsTest, CutShortAtEveryByteCve2024_41130) {
  for (GgufBuilder& builder : small_containers()) {
    builder.key_array("tokens", 8, 2, builder.text("x") + builder.text("y"));
    builder.key_array("integers", 4, 2, std::string(8, '\0'));
    const std::string whole = builder.bytes();
    const std::size_t data_end = builder.data_position() + 68;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string error = error_of(whole.substr(0, size));
      EXPECT_EQ(error == "none", size >= data_end) << size << " " << error;
    }
  }
}

TEST(GgufHostileTensorsTest, EveryReadMayFail) {
  GgufBuilder builder = small_gguf();
  builder.key_array("tokens", 8, 100'000, std::string(800'000, '\0'));  // several windows
  const std::string bytes = builder.bytes();
  const auto inner = input::make_memory_source("memory.gguf", bytes_of(bytes));
  FaultySource counting(*inner, Fault::kFails, kAllOnes);
  read_header(counting);
  ASSERT_GT(counting.reads(), 8U);
  for (std::uint64_t read = 0; read < counting.reads(); ++read) {
    FaultySource failing(*inner, Fault::kFails, read);
    EXPECT_EQ(testing::error_of([&] { read_header(failing); }), "E-READ");
    FaultySource ending(*inner, Fault::kEndsEarly, read);
    EXPECT_EQ(testing::error_of([&] { read_header(ending); }), "E-TRUNCATED");
  }
}

// Every byte set to 0, 255 and each of its bits flipped: refused or read, nothing else.
TEST(GgufHostileTensorsTest, EveryByteOfTheHeaderMayBeWrong) {
  for (const GgufBuilder& builder : small_containers()) {
    const std::string whole = builder.bytes();
    std::size_t refused = 0;
    for (std::size_t at = 0; at < builder.data_position(); ++at) {
      for (int change = 0; change < 10; ++change) {
        std::string bytes = whole;
        bytes[at] = change < 8 ? static_cast<char>(bytes[at] ^ (1 << change))
                               : static_cast<char>(change == 8 ? 0 : 255);
        refused += error_of(bytes) == "none" ? 0 : 1;
      }
    }
    EXPECT_GT(refused, 700U);
  }
}

}  // namespace
}  // namespace vindex::gguf::hostile_tensors_test
