// Hostile GGUF files against the program: every command that opens a model refuses them with the
// exit code and the error id of the contract, in one line, quickly, in little memory, writing
// nothing. The patterns are those of public advisories (docs of the readers' own tests name them);
// here each container is tried: versions 1 to 3, both byte orders.
#include "tests/support/gguf_builder.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

namespace vindex::testing::hostile_gguf_test {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};
constexpr std::uint64_t kTwoTo63 = std::uint64_t{1} << 63U;

struct Hostile {
  const char* name;
  const char* id;
  std::function<std::string(GgufBuilder)> build;  ///< from an empty container
};

GgufBuilder with_tensor(GgufBuilder builder, const std::vector<std::uint64_t>& dimensions,
                        std::uint32_t type, std::uint64_t offset = 0) {
  builder.key_string("general.architecture", "llama");
  builder.tensor("blk.0.attn_q.weight", dimensions, type, offset);
  builder.data = std::string(4096, '\0');
  return builder;
}

std::vector<Hostile> patterns() {
  return {
      {"tensor count", "E-GGUF-COUNT",
       [](GgufBuilder b) {
         b.tensor_count = kAll;
         return b.bytes();
       }},
      {"key count", "E-GGUF-COUNT",
       [](GgufBuilder b) {
         b.key_count = kAll;
         return b.bytes();
       }},
      {"string length", "E-GGUF-STRING",
       [](GgufBuilder b) { return b.key("tokenizer.chat_template", 8, b.length(kAll)).bytes(); }},
      {"array count", "E-GGUF-ARRAY",
       [](GgufBuilder b) { return b.key_array("tokenizer.ggml.tokens", 8, kAll, "").bytes(); }},
      {"string in an array", "E-GGUF-STRING",
       [](GgufBuilder b) { return b.key_array("a", 8, 1, b.length(kAll)).bytes(); }},
      {"nested array", "E-GGUF-NESTED-ARRAY",
       [](GgufBuilder b) {
         return b.key_array("a", 9, 1, b.number(std::uint32_t{9}) + b.length(1)).bytes();
       }},
      {"value type", "E-GGUF-KEY-TYPE",
       [](GgufBuilder b) { return b.key("a", 0xFFFFFFFFU, std::string(16, '\0')).bytes(); }},
      {"empty key", "E-GGUF-KEY-EMPTY", [](GgufBuilder b) { return b.key_u32("", 1).bytes(); }},
      {"key twice", "E-GGUF-DUPLICATE-KEY",
       [](GgufBuilder b) { return b.key_u32("a", 1).key_u32("a", 1).bytes(); }},
      {"alignment 0", "E-GGUF-ALIGNMENT",
       [](GgufBuilder b) { return b.key_u32("general.alignment", 0).bytes(); }},
      {"alignment 33", "E-GGUF-ALIGNMENT",
       [](GgufBuilder b) { return b.key_u32("general.alignment", 33).bytes(); }},
      {"alignment of another type", "E-GGUF-ALIGNMENT",
       [](GgufBuilder b) { return b.key_i32("general.alignment", 32).bytes(); }},
      {"five dimensions", "E-GGUF-DIMENSIONS",
       [](GgufBuilder b) {
         return with_tensor(b, {1, 1, 1, 1, 1}, 0).bytes();
       }},
      {"a million dimensions", "E-GGUF-DIMENSIONS",
       [](GgufBuilder b) { return b.raw_tensor("a", 1'000'000, "", 0, 0).bytes(); }},
      {"product of dimensions", "E-GGUF-SHAPE",
       [](GgufBuilder b) {
         return with_tensor(b, {kAll, kAll, kAll}, 0).bytes();
       }},
      {"block not filled", "E-GGUF-BLOCK",
       [](GgufBuilder b) {
         return with_tensor(b, {33, 2}, 8).bytes();
       }},
      {"removed type", "E-GGUF-TYPE",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 4).bytes();
       }},
      {"type of a fork", "E-GGUF-TYPE",
       [](GgufBuilder b) {
         return with_tensor(b, {256, 2}, 139).bytes();
       }},
      {"negative type", "E-GGUF-TYPE",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0x80000002U).bytes();
       }},
      {"data beyond the end", "E-GGUF-RANGE",
       [](GgufBuilder b) {
         return with_tensor(b, {4096, 2}, 0).bytes();
       }},
      {"offset near 2^64", "E-GGUF-RANGE",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0, kAll - 31).bytes();
       }},
      {"offset not aligned", "E-GGUF-OFFSET",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0, 16).bytes();
       }},
      {"tensor without a name", "E-GGUF-TENSOR-EMPTY",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0).tensor("", {32, 2}, 0, 256).bytes();
       }},
      {"tensor twice", "E-GGUF-DUPLICATE-TENSOR",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0).tensor("blk.0.attn_q.weight", {32, 2}, 0, 256).bytes();
       }},
      {"overlap", "E-GGUF-OVERLAP",
       [](GgufBuilder b) {
         return with_tensor(b, {32, 2}, 0).tensor("b", {32, 2}, 0, 32).bytes();
       }},
      {"cut in the table", "E-GGUF-",
       [](GgufBuilder b) {
         GgufBuilder whole = with_tensor(b, {32, 2}, 0);
         return whole.bytes().substr(0, whole.tensor_position(0) + 6);
       }},
  };
}

class HostileGgufTest : public ProgramTest {
 protected:
  std::string write(const std::string& bytes) { return folder_.write("hostile.gguf", bytes); }
  /// Reads the file once: what the system takes to find room for a large sparse file in its cache
  /// (seconds on a fresh virtual machine) is not the program's time.
  static void fill_cache(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> buffer(std::size_t{1} << 20U);
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
    }
  }
  /// Runs every command that opens a model, or only those that need a matrix in it.
  void expect_refused(const std::string& path, int exit_code, const std::string& id,
                      bool of_matrices = false) {
    const std::string out = folder_.file("out");
    fill_cache(path);
    std::vector<std::vector<std::string>> commands = {{"plan", path}, {"measure", path, "-o", out}};
    if (!of_matrices) {
      commands.push_back({"inspect", path});
      commands.push_back({"decode", path, "--tensor", "blk.0.attn_q.weight", "-o", out});
    }
    for (const std::vector<std::string>& arguments : commands) {
      SCOPED_TRACE(arguments.front());
      const ProgramResult result = run(arguments);
      EXPECT_EQ(result.exit_code, exit_code) << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(result.err.rfind("vindex: " + id, 0), 0U) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_LT(result.cpu_seconds, VINDEX_SANITIZED ? 20.0 : 2.0);
      if (!VINDEX_SANITIZED) {
        EXPECT_LT(result.peak_kib, baseline_ + 200 * 1024);
      }
      EXPECT_FALSE(std::filesystem::exists(out));
      EXPECT_FALSE(std::filesystem::exists(out + ".parts"));
    }
  }

  const long baseline_ = run({"--version"}).peak_kib;
};

TEST_F(HostileGgufTest, EveryPatternInItsContainer) {
  const GgufBuilder containers[] = {GgufBuilder(3), GgufBuilder(2), GgufBuilder(1),
                                    GgufBuilder(3, true), GgufBuilder(1, true)};
  std::size_t next = 0;
  for (const Hostile& hostile : patterns()) {
    // Version 3 always, the others in turn: the reader's own tests cover the whole product.
    for (const std::size_t container : {std::size_t{0}, 1 + next++ % 4}) {
      SCOPED_TRACE(std::string(hostile.name) + ", container " + std::to_string(container));
      const std::string bytes = hostile.build(containers[container]);
      expect_refused(write(bytes), 65, hostile.id);
    }
  }
}

TEST_F(HostileGgufTest, MagicAlone) { expect_refused(write("GGUF"), 65, "E-GGUF-TRUNCATED"); }

TEST_F(HostileGgufTest, UnknownVersions) {
  for (const std::uint32_t version : {0U, 4U, 0x04000000U}) {
    GgufBuilder builder;
    builder.version = version;
    expect_refused(write(builder.bytes()), 65, "E-GGUF-VERSION");
  }
}

// Two tensors near 2^63 bytes: neither a size nor a sum of sizes is believed (CVE-2026-27940).
TEST_F(HostileGgufTest, SumsThatWrap) {
  GgufBuilder builder;
  builder.tensor("a", {kTwoTo63 - 32}, 24, 0).tensor("b", {kTwoTo63 - 32}, 24, kTwoTo63 - 32);
  builder.data = std::string(128, '\0');
  expect_refused(write(builder.bytes()), 65, "E-GGUF-RANGE");
}

/// A file of `size` bytes that begins with `bytes` and is zero beyond, without taking the disk.
std::string sparse(const std::string& path, const std::string& bytes, std::uint64_t size) {
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::resize_file(path, size);
  return path;
}

// Counts within every limit and within the file, so that only time and memory bound the reader.
TEST_F(HostileGgufTest, LargeButLegalCountsTakeNeitherTimeNorMemory) {
  const std::string path = folder_.file("hostile.gguf");
  constexpr std::uint64_t kMax = std::uint64_t{64} << 20U;
  GgufBuilder strings;
  strings.key_array("a", 8, kMax, "");  // 64 M empty strings; then a key without a name
  strings.key_count = 2;
  expect_refused(sparse(path, strings.header(), 600U << 20U), 65, "E-GGUF-KEY-EMPTY");
  GgufBuilder numbers;
  numbers.key_array("a", 10, kMax, "");
  numbers.key_count = 2;
  expect_refused(sparse(path, numbers.header(), 600U << 20U), 65, "E-GGUF-KEY-EMPTY");
  GgufBuilder tensors;  // a million tensors of rank 0, all with the empty name
  tensors.tensor_count = 1'000'000;
  expect_refused(sparse(path, tensors.header(), 64U << 20U), 65, "E-GGUF-");
}

// A million keys and tensors with names of their own, refused at the last one.
TEST_F(HostileGgufTest, AMillionNamesTakeNeitherTimeNorMemory) {
  GgufBuilder builder;
  std::string table;
  for (std::uint32_t i = 0; i < 900'000; ++i) {
    table += gguf_string("tensor." + std::to_string(i)) + little_endian(std::uint32_t{1}) +
             little_endian(std::uint64_t{32}) + little_endian(std::uint32_t{24}) +
             little_endian(std::uint64_t{32} * i);
  }
  builder.tensor_count = 900'000;
  builder.after_table = table;
  expect_refused(write(builder.bytes()), 65, "E-GGUF-RANGE");
}

// The longest names, as many as a header may hold.
TEST_F(HostileGgufTest, AGibibyteOfNamesTakesNeitherTimeNorMemory) {
  const std::string path = folder_.file("hostile.gguf");
  GgufBuilder builder;
  builder.key_count = 20'000;
  std::ofstream file(path, std::ios::binary);
  file << builder.header();
  std::string key = little_endian(std::uint64_t{65'536}) + std::string(65'536, 'k') +
                    little_endian(std::uint32_t{4}) + little_endian(std::uint32_t{0});
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    key.replace(8, 8, little_endian(std::uint64_t{i}));
    file << key;
  }
  file.close();
  expect_refused(path, 65, "E-GGUF-");
}

// A million tensors that are legal and no matrices: nothing is wrong with the file but its use.
TEST_F(HostileGgufTest, AMillionVectorsAreNothingToMeasure) {
  constexpr std::uint32_t kTensors = 1'000'000;
  // What this process holds counts as its children's peak: it is gone before they start.
  const std::string path = [&] {
    const std::string longer(200, 'x');
    GgufBuilder builder;
    builder.key_string("general.architecture", "llama");
    builder.tensor_count = kTensors;
    for (std::uint32_t i = 0; i < kTensors; ++i) {
      builder.after_table += gguf_string("blk." + std::to_string(i) + ".attn_norm." + longer) +
                             little_endian(std::uint32_t{1}) + little_endian(std::uint64_t{8}) +
                             little_endian(std::uint32_t{0}) + little_endian(std::uint64_t{32} * i);
    }
    return write(builder.bytes());
  }();
  std::filesystem::resize_file(path,
                               std::filesystem::file_size(path) + std::uint64_t{32} * kTensors);
  expect_refused(path, 66, "E-NOTHING", true);
}

TEST_F(HostileGgufTest, NothingToMeasureIsSaid) {
  GgufBuilder builder;
  builder.key_string("general.architecture", "llama");
  expect_refused(write(builder.bytes()), 66, "E-NO-TENSORS");
}

// Keys that lie about the tensors (CVE-2024-8063: a type there led to a division by zero).
TEST_F(HostileGgufTest, LyingKeysAreWarningsAndTheTensorsAreMeasured) {
  const std::string zero32 = little_endian(std::uint32_t{0});
  const std::vector<std::pair<std::uint32_t, std::string>> values = {
      {4, zero32},
      {4, little_endian(~std::uint32_t{0})},
      {5, little_endian(std::int32_t{-1})},
      {6, zero32},
      {8, gguf_string("four")},
      {10, little_endian(kAll)},
      {9, zero32 + little_endian(std::uint64_t{0})}};
  for (const auto& [type, value] : values) {
    GgufBuilder builder;
    builder.key_string("general.architecture", "llama");
    for (const char* key :
         {"llama.block_count", "llama.expert_count", "llama.expert_used_count",
          "llama.embedding_length", "llama.attention.head_count", "llama.leading_dense_block_count",
          "general.file_type", "tokenizer.ggml.bos_token_id"}) {
      builder.key(key, type, value);
    }
    builder.tensor("blk.600.attn_q.weight", {32, 4}, 0, 0);
    builder.data = std::string(512, '\1');
    const std::string out = folder_.file("lying.h5");
    const ProgramResult result = run({"measure", write(builder.bytes()), "-o", out, "--restart"});
    EXPECT_EQ(result.exit_code, 0) << type << " " << result.err;
  }
}

}  // namespace
}  // namespace vindex::testing::hostile_gguf_test
