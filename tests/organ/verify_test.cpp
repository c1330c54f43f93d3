// Every rule broken once, by hand; what is clean stays so.
#include "organ/verify/verify.hpp"

#include "organ_fixture.hpp"

#include "organ/opening/open_gguf.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace vindex::organ::verify_test {
namespace {

using testing::little_endian;
using testing::TemporaryFolder;

VerifyReport judged(const std::string& path, bool check_tensors = false) {
  VerifySettings settings;
  settings.path = path;
  settings.check_tensors = check_tensors;
  return verify(settings);
}

/// Ids of errors and warnings; of notes too with `notes`.
std::set<std::string> ids(const VerifyReport& report, bool notes = false) {
  std::set<std::string> found;
  for (const VerifyFinding& finding : report.findings) {
    if (notes || finding.level != VerifyLevel::kNote) {
      found.insert(finding.id);
    }
  }
  return found;
}

std::set<std::string> ids_of(const std::string& bytes, bool check_tensors = false) {
  const TemporaryFolder folder;
  return ids(judged(folder.write("m.gguf", bytes), check_tensors));
}

using Ids = std::set<std::string>;

TEST(VerifyTest, ACleanModelHasNotesAlone) {
  const TemporaryFolder folder;
  const VerifyReport report =
      judged(folder.write("m.gguf", small_llama(3, 1.0F, true).bytes()), true);
  EXPECT_EQ(ids(report, true), Ids{"V-TIED"});
  EXPECT_EQ(report.errors + report.warnings, 0U);
  EXPECT_EQ(report.tensors, 29U);
  EXPECT_EQ(report.tensors_checked, 29U);
  EXPECT_EQ(ids_of(Canonical(64).bytes()), (Ids{"V-ARCHITECTURE"}));
}

TEST(VerifyTest, ThePrefix) {
  EXPECT_EQ(ids_of("GGUX" + std::string(40, '\0')), Ids{"V-MAGIC"});
  EXPECT_EQ(ids_of("GG"), Ids{"V-TRUNCATED"});
  EXPECT_EQ(ids_of(testing::GgufBuilder(9).bytes()), Ids{"V-VERSION"});
  EXPECT_TRUE(ids_of(testing::small_gguf(1).bytes()).contains("V-VERSION"));
  EXPECT_FALSE(ids_of(testing::small_gguf(2).bytes()).contains("V-VERSION"));
  EXPECT_TRUE(ids_of(testing::small_gguf(3, true).bytes()).contains("V-BYTE-ORDER"));
  testing::GgufBuilder many;
  many.tensor_count = ~std::uint64_t{0};
  EXPECT_EQ(ids_of(many.bytes()), Ids{"V-COUNT"});
}

/// The findings of a small llama with one more key.
Ids with_key(const std::string& name, std::uint32_t type, const std::string& value) {
  Canonical model = small_llama(2, 1.0F);
  model.builder.key(name, type, value);
  return ids_of(model.bytes());
}

TEST(VerifyTest, Keys) {
  const std::string nested = little_endian(9U) + little_endian(std::uint64_t{1});
  EXPECT_EQ(with_key("a", 9, nested), (Ids{"V-KEY-NESTED", "V-TRUNCATED"}));
  EXPECT_EQ(with_key("a", 77, ""), Ids{"V-TRUNCATED"});
  EXPECT_EQ(with_key("", 0, "x"), Ids{"V-KEY-EMPTY"});
  EXPECT_EQ(with_key("a b", 0, "x"), Ids{"V-KEY-NAME"});
  EXPECT_EQ(with_key("general.name", 8, testing::gguf_string("x")), Ids{"V-KEY-TWICE"});
  EXPECT_EQ(with_key("a", 7, "\x02"), Ids{"V-KEY-BOOL"});
  EXPECT_EQ(with_key("a", 8, little_endian(~std::uint64_t{0})),
            (Ids{"V-KEY-LIMIT", "V-TRUNCATED"}));
  // u64 by the specification, refused by the loader.
  EXPECT_EQ(with_key("llama.context_length", 10, little_endian(std::uint64_t{8})),
            Ids{"V-KEY-TYPE"});
  EXPECT_EQ(with_key("llama.rope.freq_base", 12, little_endian(std::uint64_t{8})),
            Ids{"V-KEY-TYPE"});
  EXPECT_EQ(with_key("general.alignment", 10, little_endian(std::uint64_t{32})),
            Ids{"V-ALIGNMENT-TYPE"});
  EXPECT_EQ(with_key("general.alignment", 4, little_endian(24U)), Ids{"V-ALIGNMENT-VALUE"});
  // Laid out at 32, declared 64: so do tools that copy the key without applying it.
  EXPECT_TRUE(with_key("general.alignment", 4, little_endian(64U)).contains("V-ALIGNMENT-LAYOUT"));
}

TEST(VerifyTest, PerLayerArraysThatLostTheirBlocks) {
  for (const std::uint64_t count : {1U, 3U}) {
    std::string values;
    for (std::uint64_t i = 0; i < count; ++i) {
      values += little_endian(2U);
    }
    EXPECT_EQ(with_key("llama.attention.head_count", 9,
                       little_endian(4U) + little_endian(count) + values),
              Ids{"V-LAYER-ARRAY"});
  }
}

TEST(VerifyTest, Tensors) {
  const auto with = [](const std::string& name, const std::vector<std::uint64_t>& shape,
                       std::uint32_t type, const std::string& data) {
    Canonical model;
    model.builder.key_string("general.architecture", "unknown");
    model.tensor(name, shape, type, data);
    return ids_of(model.bytes());
  };
  const std::string word(4, '\0');
  EXPECT_EQ(with(std::string(63, 'x'), {1}, 0, word), Ids{});
  EXPECT_EQ(with(std::string(64, 'x'), {1}, 0, word), Ids{"V-TENSOR-NAME-LENGTH"});
  EXPECT_EQ(with("", {1}, 0, word), Ids{"V-TENSOR-NAME-EMPTY"});
  EXPECT_EQ(with("x", {1, 1, 1, 1, 1}, 0, word), Ids{"V-TENSOR-DIMS"});
  EXPECT_EQ(with("x", {std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, 0, word),
            Ids{"V-TENSOR-SHAPE"});
  EXPECT_EQ(with("x", {33}, 8, word), Ids{"V-TENSOR-BLOCK"});
  EXPECT_EQ(with("x", {32}, 31, word), Ids{"V-TYPE-REMOVED"});
  EXPECT_EQ(with("x", {32}, 15, word), Ids{"V-TYPE-UNKNOWN"});
  EXPECT_EQ(with("x", {32}, 137, word), Ids{"V-TYPE-UNKNOWN"});
  EXPECT_EQ(with("x", {100}, 0, word), Ids{"V-BOUNDS"});
  EXPECT_EQ(with("x", {32, 1}, 8, std::string(34, '\0')), Ids{"V-QUANTIZATION-VERSION"});
  Canonical twice;
  twice.builder.key_string("general.architecture", "unknown");
  twice.floats("x", {1}, 1.0F);
  twice.floats("x", {1}, 1.0F);
  EXPECT_EQ(ids_of(twice.bytes()), Ids{"V-TENSOR-TWICE"});
}

TEST(VerifyTest, Layout) {
  const auto with = [](std::uint64_t second, std::uint64_t third, std::size_t bytes) {
    testing::GgufBuilder model;
    model.key_string("general.architecture", "unknown");
    model.tensor("a", {8}, 0, 0).tensor("b", {8}, 0, second).tensor("c", {8}, 0, third);
    model.data = std::string(bytes, '\0');
    return ids_of(model.bytes());
  };
  EXPECT_EQ(with(32, 64, 96), Ids{});
  EXPECT_EQ(with(64, 96, 128), Ids{"V-OFFSET-GAP"});
  EXPECT_EQ(with(64, 32, 96), Ids{"V-OFFSET-ORDER"});
  EXPECT_EQ(with(0, 32, 96), (Ids{"V-OVERLAP", "V-TRAILING"}));
  EXPECT_EQ(with(33, 96, 128), Ids{"V-OFFSET-ALIGN"});
  EXPECT_EQ(with(32, 64, 100), Ids{"V-TRAILING"});
  EXPECT_EQ(with(32, 64, 90), Ids{"V-BOUNDS"});
  Canonical padded;
  padded.builder.key_string("general.architecture", "unknown");
  padded.floats("a", {1}, 1.0F);
  std::string bytes = padded.bytes();
  EXPECT_EQ(ids_of(bytes.substr(0, bytes.size() - 20)), Ids{"V-FINAL-PADDING"});
  bytes.back() = 'x';
  EXPECT_EQ(ids_of(bytes), Ids{"V-PADDING"});
}

TEST(VerifyTest, Models) {
  Canonical holes = small_llama(2, 1.0F);
  holes.floats("blk.3.attn_norm.weight", {8}, 1.0F);
  EXPECT_TRUE(ids_of(holes.bytes()).contains("V-BLOCK-BEYOND"));
  Canonical short_of_one;
  short_of_one.builder.key_string("general.architecture", "unknown");
  short_of_one.builder.key_u32("unknown.block_count", 3);
  short_of_one.floats("blk.0.a.weight", {8}, 1.0F);
  short_of_one.floats("blk.2.a.weight", {8}, 1.0F);
  EXPECT_EQ(ids_of(short_of_one.bytes()), Ids{"V-BLOCK-MISSING"});
  Canonical stray = small_llama(2, 1.0F);
  stray.floats("blk.1.visual.weight", {8}, 1.0F);
  EXPECT_EQ(ids_of(stray.bytes()), Ids{"V-TENSOR-STRAY"});
  Canonical uneven;
  uneven.builder.key_string("general.architecture", "unknown").key_u32("unknown.block_count", 5);
  for (int block = 0; block < 5; ++block) {
    const std::string prefix = "blk." + std::to_string(block);
    uneven.floats(prefix + ".a.weight", {8}, 1.0F);
    if (block != 3) {
      uneven.floats(prefix + ".b.weight", {8}, 1.0F);
    }
  }
  EXPECT_EQ(ids_of(uneven.bytes()), Ids{"V-BLOCK-UNEVEN"});
  Canonical missing;
  missing.builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 1);
  missing.floats("token_embd.weight", {8, 4}, 1.0F);
  missing.floats("output_norm.weight", {8}, 1.0F);
  missing.floats("blk.0.attn_norm.weight", {8}, 1.0F);
  const TemporaryFolder folder;
  EXPECT_EQ(judged(folder.write("m.gguf", missing.bytes())).errors, 8U);
  EXPECT_EQ(with_key("general.file_type", 4, little_endian(15U)), Ids{"V-FILE-TYPE"});
  EXPECT_EQ(with_key("general.file_type", 4, little_endian(0U)), Ids{});
}

TEST(VerifyTest, Values) {
  Canonical model;
  model.builder.key_string("general.architecture", "unknown");
  model.builder.key_u32("general.quantization_version", 2);
  model.floats("nan", {3}, std::numeric_limits<float>::quiet_NaN());
  model.floats("inf", {3}, std::numeric_limits<float>::infinity());
  std::string blocks(68, '\1');
  blocks[34] = '\0';
  blocks[35] = '\x7E';  // the second block's scale is NaN
  model.tensor("scale", {64}, 8, blocks);
  model.floats("fine", {3}, 1.0F);
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", model.bytes());
  EXPECT_EQ(judged(path).errors, 0U);
  const VerifyReport report = judged(path, true);
  EXPECT_EQ(report.errors, 3U);
  ASSERT_EQ(report.findings.size(), 3U);
  EXPECT_EQ(report.findings[0].id, "V-NAN");
  EXPECT_EQ(report.findings[1].id, "V-INFINITE");
  EXPECT_EQ(report.findings[2].where, "tensor \"scale\"");
  EXPECT_NE(report.findings[2].what.find("32 NaN weights, first in row 0 at 32 (block 1"),
            std::string::npos)
      << report.findings[2].what;
}

TEST(VerifyTest, Sets) {
  const auto file = [](std::uint16_t number, std::uint16_t count, std::int32_t tensors,
                       const std::string& name, std::uint32_t type = 2) {
    Canonical split;
    if (number == 0) {
      split.builder.key_string("general.architecture", "unknown");
    }
    if (type == 2) {
      split.builder.key_u16("split.no", number);
    } else {
      split.builder.key_u32("split.no", number);
    }
    split.builder.key_u16("split.count", count).key_i32("split.tensors.count", tensors);
    split.floats(name, {8}, 1.0F);
    return split.bytes();
  };
  const auto judge = [](const std::string& first, const std::string& second) {
    const TemporaryFolder folder;
    folder.write("m-00001-of-00002.gguf", first);
    if (!second.empty()) {
      folder.write("m-00002-of-00002.gguf", second);
    }
    const std::set<std::string> by_folder = ids(judged(folder.path()));
    EXPECT_EQ(ids(judged(folder / "m-00001-of-00002.gguf")), by_folder);
    return by_folder;
  };
  EXPECT_EQ(judge(file(0, 2, 2, "a"), file(1, 2, 2, "b")), Ids{});
  EXPECT_EQ(judge(file(0, 2, 2, "a"), ""), Ids{"V-SPLIT-MISSING"});
  EXPECT_EQ(judge(file(0, 2, 2, "a"), file(0, 2, 2, "b")), Ids{"V-SPLIT-NUMBER"});
  EXPECT_EQ(judge(file(0, 2, 2, "a"), file(1, 3, 2, "b")), Ids{"V-SPLIT-COUNT"});
  EXPECT_EQ(judge(file(0, 2, 3, "a"), file(1, 2, 3, "b")), Ids{"V-SPLIT-TENSORS"});
  EXPECT_EQ(judge(file(0, 2, 2, "a"), file(1, 2, 2, "a")), Ids{"V-SPLIT-TWICE"});
  EXPECT_EQ(judge(file(0, 2, 2, "a", 4), file(1, 2, 2, "b")), Ids{"V-SPLIT-TYPE"});
  EXPECT_EQ(judge(file(0, 2, 2, "a"), Canonical().bytes()),
            (Ids{"V-SPLIT-KEYS", "V-SPLIT-TENSORS"}));
  EXPECT_EQ(ids_of(file(0, 2, 1, "a")), Ids{"V-SPLIT-LEFTOVER"});
}

/// Whatever the bytes, there is a report, and what the reader refuses is an error in it.
TEST(VerifyTest, DamagedBytesEndInFindings) {
  const std::string good = small_llama(1, 1.0F, true).bytes();
  const TemporaryFolder folder;
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    for (int change = 0; change < 3; ++change) {
      bytes[random() % 900] = static_cast<char>(random());
    }
    bytes.resize(round % 3 == 0 ? random() % bytes.size() : bytes.size());
    const VerifyReport report = judged(folder.write("m.gguf", bytes), true);
    const std::string refusal = testing::error_of([&] { open_gguf(folder / "m.gguf"); });
    EXPECT_TRUE(report.errors > 0 || refusal == "none") << round << ": " << refusal;
    EXPECT_GE(report.errors + report.warnings + report.notes, report.findings.size()) << round;
  }
}

}  // namespace
}  // namespace vindex::organ::verify_test
