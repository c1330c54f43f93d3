// Taking apart and putting together: the same bytes come back, and what an organ file is.
#include "organ/extract/extract.hpp"

#include "organ_fixture.hpp"

#include "core/digest.hpp"
#include "input/model_files.hpp"
#include "organ/assemble/assemble.hpp"
#include "organ/opening/open_gguf.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <sys/resource.h>

namespace vindex::organ::extract_test {
namespace {

using testing::error_of;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

ExtractReport extracted(const std::string& model, const std::string& folder,
                        bool by_reference = false) {
  ExtractSettings settings;
  settings.model = model;
  settings.output = folder;
  settings.by_reference = by_reference;
  settings.tool = "test";
  return extract(settings);
}

AssembleReport assembled(const std::string& input, const std::string& output,
                         std::optional<std::uint64_t> shard_bytes = std::nullopt,
                         bool accept_changed = false) {
  AssembleSettings settings;
  settings.input = input;
  settings.output = output;
  settings.shard_bytes = shard_bytes;
  settings.accept_changed = accept_changed;
  return assemble(settings);
}

void expect_same_bytes(const std::string& bytes) {
  for (const bool by_reference : {false, true}) {
    const TemporaryFolder folder;
    const std::string model = folder.write("m.gguf", bytes);
    extracted(model, folder / "organs", by_reference);
    assembled(folder / "organs", folder / "again.gguf");
    EXPECT_EQ(file_text(folder / "again.gguf"), bytes) << by_reference;
  }
}

TEST(ExtractTest, EveryKindOfKeyComesBack) {
  Canonical model;
  const auto number = [](auto value) { return testing::little_endian(value); };
  model.builder.key("k.u8", 0, "\xFF").key("k.i8", 1, "\x80").key_u16("k.u16", 65535);
  model.builder.key("k.i16", 3, number(std::uint16_t{0x8000})).key_u32("k.u32", 4294967295U);
  model.builder.key_i32("k.i32", -2147483647 - 1);
  for (const std::uint32_t bits :
       {0U, 0x80000000U, 1U, 0x3727C5ACU, 0x7F7FFFFFU, 0x7F800000U, 0x7FC12345U, 0xFF800001U}) {
    model.builder.key("k.f32." + std::to_string(bits), 6, number(bits));
  }
  for (const std::uint64_t bits :
       {std::uint64_t{1}, std::uint64_t{0x7FF8000000000123}, std::uint64_t{0x3FB999999999999A}}) {
    model.builder.key("k.f64." + std::to_string(bits), 12, number(bits));
  }
  model.builder.key("k.true", 7, "\x01").key("k.u64", 10, number(~std::uint64_t{0}));
  model.builder.key("k.i64", 11, number(std::uint64_t{1} << 63U));
  model.builder.key_string("k.text", "a\n\"\\\xC3\xA9").key_string("k.empty", "");
  model.builder.key_string("k.bytes", "\xFF\xFE").key_string("k.nul", std::string("a\0b", 3));
  model.builder.key_string("k.long", std::string(100'000, 'x'));
  model.builder.key_array("k.none", 4, 0, "").key_array("k.bools", 7, 3, std::string("\1\0\1", 3));
  model.builder.key_array("k.floats", 6, 2, number(0x3727C5ACU) + number(0x7FC00000U));
  model.builder.key_array("k.signed", 5, 2, number(0xFFFFFFFFU) + number(7U));
  model.builder.key_array("k.texts", 8, 2, testing::gguf_string("a") + testing::gguf_string(""));
  model.builder.key_array("k.odd", 8, 1, testing::gguf_string("\xC3"));
  std::string many;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    many += testing::gguf_string("token" + std::to_string(i));
  }
  model.builder.key_array("tokenizer.ggml.tokens", 8, 5000, many);
  model.floats("a.weight", {4}, 1.0F);
  expect_same_bytes(model.bytes());
}

TEST(ExtractTest, EveryShapeComesBack) {
  for (const std::uint64_t alignment : {8U, 32U, 64U, 4096U}) {
    Canonical model(alignment);
    model.builder.key_string("general.architecture", "llama");
    model.floats("one", {1}, 1.0F);
    model.floats("blk.0.attn_q.weight", {3, 5}, 2.0F);
    model.floats("blk.0.attn_q.bias", {3}, 3.0F);
    model.floats("empty.weight", {0, 4}, 0.0F);
    model.floats("four.weight", {2, 3, 4, 5}, 4.0F);
    model.tensor("blk.0.ffn_up_exps.weight", {32, 2, 3}, 8, std::string(204, 'q'));
    expect_same_bytes(model.bytes());
  }
  Canonical none;
  none.builder.key_string("general.architecture", "llama");
  expect_same_bytes(none.bytes());
  expect_same_bytes(none.builder.header());  // without the padding behind it
}

/// Drawn files: odd alignments and sizes, classes in any order.
TEST(ExtractTest, DrawnFilesComeBack) {
  std::mt19937 random(7);
  const auto draw = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int round = 0; round < 30; ++round) {
    Canonical model(std::uint64_t{1} << (3 + draw(6)));
    for (std::uint64_t k = draw(5); k > 0; --k) {
      model.builder.key_u32("key." + std::to_string(k), static_cast<std::uint32_t>(random()));
    }
    const std::uint64_t count = draw(12);
    for (std::uint64_t t = 0; t < count; ++t) {
      constexpr const char* kNames[] = {"attn_q", "ffn_up", "attn_norm", "x.y-z", "ffn_gate_inp"};
      const std::string name =
          "blk." + std::to_string(t) + "." + kNames[draw(4)] + (draw(1) == 0 ? ".weight" : ".bias");
      std::vector<std::uint64_t> shape;
      for (std::uint64_t d = draw(4); d > 0; --d) {
        shape.push_back(draw(5));
      }
      model.floats(name, shape, static_cast<float>(t));
    }
    expect_same_bytes(model.bytes());
  }
}

TEST(ExtractTest, AnOrganIsAModelOfOneTensor) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_llama(2, 1.0F).bytes());
  const ExtractReport report = extracted(path, folder / "organs");
  EXPECT_EQ(report.tensors, 20U);
  EXPECT_EQ(report.classes[static_cast<std::size_t>(OrganClass::kOrgan)].tensors, 6U);
  EXPECT_EQ(names_in(folder / "organs"),
            (std::vector<std::string>{"embed", "manifest.json", "norm", "organs", "skeleton"}));
  EXPECT_EQ(names_in(folder / "organs/embed"), std::vector<std::string>{"token_embd.bin"});
  const auto organ = open_gguf(folder / "organs/organs/blk_1_ffn_gate.bin");
  ASSERT_EQ(organ->tensors().size(), 1U);
  EXPECT_EQ(organ->tensors()[0].name, "blk.1.ffn_gate.weight");
  EXPECT_EQ(organ->tensors()[0].offset % 32, 0U);
  EXPECT_EQ(organ->splits()[0].header.version, 3U);
  EXPECT_EQ(organ->splits()[0].header.alignment, 32U);
  EXPECT_EQ(organ->architecture(), "llama");
  EXPECT_EQ(organ->number("organ.version"), 1U);
  EXPECT_EQ(organ->text("organ.class"), "organ");
  EXPECT_EQ(organ->key("organ.block")->type, gguf::ValueType::kI32);
  EXPECT_EQ(organ->number("organ.block"), 1U);
  EXPECT_EQ(organ->text("organ.source.name"), "small 1");
  std::string bytes(256, '\0');
  organ->read(organ->tensors()[0], 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(organ->text("organ.tensor.sha256"), hex(sha256(bytes)));
}

TEST(ExtractTest, NamesThatFallTogetherAreToldApart) {
  const TemporaryFolder folder;
  Canonical model;
  model.floats("a.b", {1}, 1.0F);
  model.floats("a_b", {1}, 2.0F);
  model.floats("a.b.weight", {1}, 3.0F);
  model.floats("../../x", {1}, 4.0F);
  extracted(folder.write("m.gguf", model.bytes()), folder / "organs");
  EXPECT_EQ(names_in(folder / "organs/other"),
            (std::vector<std::string>{"______x.bin", "a_b.bin", "a_b_2.bin", "a_b_3.bin"}));
  expect_same_bytes(model.bytes());
}

TEST(ExtractTest, ASelectionSaysThatItIsOne) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_llama(3, 1.0F).bytes());
  ExtractSettings settings;
  settings.model = path;
  settings.output = folder / "part";
  settings.types = "organ";
  settings.layers = "1-2";
  EXPECT_EQ(extract(settings).tensors, 6U);
  EXPECT_EQ(error_of([&] { assembled(folder / "part", folder / "x.gguf"); }), "E-ORGAN-PARTIAL");
  EXPECT_EQ(open_gguf(folder / "part")->tensors().size(), 6U);
  settings.output = folder / "none";
  settings.layers = "9";
  EXPECT_EQ(error_of([&] { extract(settings); }), "E-ORGAN-NONE");
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(ExtractTest, SplitsComeBackMergeAndSplitAnew) {
  const TemporaryFolder folder;
  const std::string whole = small_llama(2, 1.0F).bytes();
  const std::string single = folder.write("m.gguf", whole);
  assembled(single, folder / "s.gguf", 1000);
  const std::string first = folder / "s-00001-of-00005.gguf";
  ASSERT_TRUE(std::filesystem::exists(first)) << ::testing::PrintToString(names_in(folder.path()));
  for (const bool by_reference : {false, true}) {
    const std::string organs = folder / ("organs" + std::to_string(by_reference));
    extracted(first, organs, by_reference);
    std::filesystem::create_directory(folder / "out");
    const AssembleReport report = assembled(organs, folder / "out");
    ASSERT_EQ(report.composed.files.size(), 5U);
    for (const std::string& file : report.composed.files) {
      EXPECT_EQ(file_text(file), file_text(folder / std::filesystem::path(file).filename()));
    }
    std::filesystem::remove_all(folder / "out");
    assembled(organs, folder / "merged.gguf", 0);
    EXPECT_EQ(file_text(folder / "merged.gguf"), whole);
    std::filesystem::remove(folder / "merged.gguf");
  }
}

TEST(ExtractTest, AnEditedOrganIsTakenOnRequestAlone) {
  const TemporaryFolder folder;
  extracted(folder.write("m.gguf", small_llama(2, 1.0F).bytes()), folder / "organs");
  const std::string organ = folder / "organs/skeleton/blk_0_attn_q.bin";
  std::string bytes = file_text(organ);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(organ, std::ios::binary) << bytes;
  EXPECT_EQ(error_of([&] { assembled(folder / "organs", folder / "x.gguf"); }), "E-ORGAN-DIGEST");
  EXPECT_FALSE(std::filesystem::exists(folder / "x.gguf"));
  const AssembleReport report = assembled(folder / "organs", folder / "x.gguf", std::nullopt, true);
  EXPECT_EQ(report.changed, std::vector<std::string>{"blk.0.attn_q.weight"});
  const auto made = open_gguf(folder / "x.gguf");
  EXPECT_EQ(made->key("organ.history")->array_count, 1U);
  EXPECT_EQ(made->number("general.base_model.count"), 1U);
}

TEST(ExtractTest, AnOrganOfAnotherTypeIsTakenOnRequestAlone) {
  const TemporaryFolder folder;
  extracted(folder.write("m.gguf", small_llama(1, 1.0F).bytes()), folder / "organs");
  Canonical half;
  half.tensor("blk.0.attn_q.weight", {8, 8}, 1, std::string(128, '\x3C'));
  folder.write("organs/skeleton/blk_0_attn_q.bin", half.bytes());
  EXPECT_EQ(error_of([&] { open_gguf(folder / "organs"); }), "E-ORGAN-CHANGED");
  EXPECT_EQ(error_of([&] { assembled(folder / "organs", folder / "x.gguf"); }), "E-ORGAN-CHANGED");
  assembled(folder / "organs", folder / "x.gguf", std::nullopt, true);
  const auto made = open_gguf(folder / "x.gguf");
  EXPECT_EQ(made->tensors()[*made->find("blk.0.attn_q.weight")].type, decode::ElementType::kF16);
}

TEST(ExtractTest, AModelThatChangedIsNotTakenByReference) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_llama(1, 1.0F).bytes());
  extracted(path, folder / "organs", true);
  EXPECT_EQ(names_in(folder / "organs"), std::vector<std::string>{"manifest.json"});
  std::filesystem::remove(path);
  folder.write("m.gguf", small_llama(1, 2.0F).bytes());
  EXPECT_EQ(error_of([&] { assembled(folder / "organs", folder / "x.gguf"); }), "E-ORGAN-SOURCE");
  assembled(folder / "organs", folder / "x.gguf", std::nullopt, true);
}

TEST(ExtractTest, MoreOrgansThanFilesThatMayBeOpen) {
  const TemporaryFolder folder;
  const std::string bytes = small_llama(40, 1.0F).bytes();  // 362 tensors
  ExtractSettings settings;
  settings.model = folder.write("m.gguf", bytes);
  settings.output = folder / "organs";
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 240;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  extract(settings);
  AssembleSettings together;
  together.input = settings.output;
  together.output = folder / "again.gguf";
  EXPECT_EQ(error_of([&] { assemble(together); }), "none");
  together.input = settings.model;
  together.output = folder / "many/x.gguf";
  together.shard_bytes = 1;
  std::filesystem::create_directory(folder / "many");
  EXPECT_EQ(error_of([&] { assemble(together); }), "none");
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(file_text(folder / "again.gguf"), bytes);
  EXPECT_EQ(names_in(folder / "many").size(), 362U);
}

TEST(ExtractTest, AnOrganThatChangesMeanwhileIsNoticed) {
  const TemporaryFolder folder;
  ExtractSettings settings;
  settings.model = folder.write("m.gguf", small_llama(20, 1.0F).bytes());
  settings.output = folder / "organs";
  extract(settings);
  const auto source = open_gguf(folder / "organs");
  ASSERT_GT(source->files().size(), 150U);
  source->require_unchanged();
  const std::string organ = folder / "organs/embed/token_embd.bin";
  const std::string bytes = file_text(organ);
  std::filesystem::remove(organ);
  folder.write("organs/embed/token_embd.bin", bytes);  // the same bytes in another file
  EXPECT_EQ(error_of([&] { source->require_unchanged(); }), "E-INPUT-CHANGED");
  std::vector<std::byte> some(8);
  EXPECT_EQ(error_of([&] { source->read(source->tensors().front(), 0, some); }), "E-INPUT-CHANGED");
}

TEST(ExtractTest, StoppedOrRefusedLeavesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_llama(1, 1.0F).bytes());
  std::stop_source stop;
  stop.request_stop();
  ExtractSettings settings;
  settings.model = path;
  settings.output = folder / "organs";
  settings.stop = stop.get_token();
  EXPECT_TRUE(extract(settings).stopped);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"m.gguf"});
  folder.write("full/file", "x");
  settings.output = folder / "full";
  EXPECT_EQ(error_of([&] { extract(settings); }), "E-OUTPUT-NOT-EMPTY");
}

}  // namespace
}  // namespace vindex::organ::extract_test
