// Prompts as token numbers: what is read, what is refused and where, and blocks of whole prompts.
#include "commands/trace/tokens/trace_prompts.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vindex::trace_prompts_test {
namespace {

using commands::read_prompts;
using commands::TracePrompts;
using testing::message_of;
using testing::outcome_of;
using testing::TemporaryFolder;

TEST(TracePromptsTest, LinesAreListsOrObjectsWithIds) {
  const TemporaryFolder folder;
  const std::string path = folder.write("p.jsonl",
                                        "{\"ids\": [1, 5, 9]}\r\n\n[7]\n"
                                        R"({"text": "x [2", "ids": [0], "more": {"ids": [3]}})");
  const TracePrompts prompts = read_prompts(path, 10);
  EXPECT_EQ(prompts.ids, (std::vector<std::int32_t>{1, 5, 9, 7, 0}));
  EXPECT_EQ(prompts.lengths, (std::vector<std::int64_t>{3, 1, 1}));
  EXPECT_EQ(prompts.longest(), 3);
}

TEST(TracePromptsTest, AnArrayOfAnyIntegersIsOnePrompt) {
  const TemporaryFolder folder;
  for (const auto& [descr, width] :
       std::vector<std::pair<std::string, int>>{{"|i1", 1}, {"<u2", 2}, {"<i4", 4}, {"<i8", 8}}) {
    std::string data;
    for (const char id : {'\3', '\0', '\t'}) {
      data += std::string(1, id) + std::string(static_cast<std::size_t>(width - 1), '\0');
    }
    const std::string path =
        folder.write("p.npy", testing::npy_file(testing::npy_dict(descr, "(3,)"), data));
    EXPECT_EQ(read_prompts(path, 10).ids, (std::vector<std::int32_t>{3, 0, 9})) << descr;
  }
}

TEST(TracePromptsTest, ALongLineIsReadInPieces) {
  const TemporaryFolder folder;
  std::string text = "[0";
  for (int i = 1; i < 700'000; ++i) {
    text += ", " + std::to_string(i % 1000);
  }
  const TracePrompts prompts = read_prompts(folder.write("p.jsonl", text + "]\n[5]\n"), 1000);
  EXPECT_EQ(prompts.lengths, (std::vector<std::int64_t>{700'000, 1}));
  EXPECT_EQ(prompts.ids[699'999], 999);
}

TEST(TracePromptsTest, WhatIsNoPromptIsRefusedWithItsLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    const std::string path = folder.write("p.jsonl", text);
    EXPECT_TRUE(outcome_of([&] { read_prompts(path, 10); }).ends_with(" 65")) << text;
    return message_of([&] { read_prompts(path, 10); });
  };
  EXPECT_NE(refused("[1]\n[2, 10]\n").find("line 2: id 10 is outside the vocabulary (0 to 9)"),
            std::string::npos);
  EXPECT_NE(refused("[1]\n\n[]\n").find("line 3: a prompt without tokens"), std::string::npos);
  for (const char* text : {"",
                           "\n \n",
                           "[-1]",
                           "[1.5]",
                           "[1e0]",
                           "[\"1\"]",
                           "[[1]]",
                           "{\"id\": [1]}",
                           "{\"ids\": 1}",
                           "{\"ids\": []}",
                           "{\"ids\": [1], \"ids\": [2]}",
                           "[1",
                           "[1]]",
                           "7",
                           "null",
                           "[1],",
                           "[18446744073709551616]",
                           "[18446744073709551615]",
                           "[NaN]",
                           "\xEF\xBB\xBF[1]"}) {
    EXPECT_NE(refused(text).find("p.jsonl"), std::string::npos) << text;
  }
  EXPECT_EQ(outcome_of([&] { read_prompts(folder / "absent.jsonl", 10); }).substr(0, 6), "E-FILE");
}

TEST(TracePromptsTest, ArraysThatAreNoPromptAreRefused) {
  const TemporaryFolder folder;
  const std::string four(4, '\1');
  for (const auto& [descr, shape, data] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"<f4", "(1,)", four},
                                                                      {"|i1", "(2, 2)", four},
                                                                      {"|i1", "(0,)", ""},
                                                                      {"|i1", "(1,)", "\xFF"},
                                                                      {"|u1", "(1,)", "\xFF"},
                                                                      {"|b1", "(4,)", four}}) {
    const std::string path =
        folder.write("p.npy", testing::npy_file(testing::npy_dict(descr, shape), data));
    EXPECT_TRUE(outcome_of([&] { read_prompts(path, 10); }).ends_with(" 65")) << descr << shape;
  }
}

TEST(TracePromptsTest, NoMoreTokensAreReadThanThereIsRoomFor) {
  const TemporaryFolder folder;
  const std::string lines = folder.write("p.jsonl", "[1, 2]\n[3]\n");
  const std::string array = folder.write(
      "p.npy", testing::npy_file(testing::npy_dict("|u1", "(3,)"), std::string(3, '\1')));
  for (const std::string& path : {lines, array}) {
    EXPECT_EQ(read_prompts(path, 10, {}, 3).tokens(), 3);
    EXPECT_EQ(outcome_of([&] { read_prompts(path, 10, {}, 2); }), "E-BUDGET 78");
  }
}

TEST(TracePromptsTest, TheDigestIsOfIdsAndOfWherePromptsEnd) {
  const TracePrompts a{{1, 2, 3}, {2, 1}}, b{{1, 2, 3}, {1, 2}}, c{{1, 2, 4}, {2, 1}};
  EXPECT_EQ(a.digest(), (TracePrompts{{1, 2, 3}, {2, 1}}.digest()));
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_NE(a.digest(), c.digest());
}

TEST(TracePromptsTest, BlocksAreOfWholePromptsOrOfOne) {
  const std::vector<std::int64_t> lengths = {3, 4, 10, 1, 1, 5};
  std::vector<std::int64_t> tokens, prompts;
  for (const commands::PromptBlock& block : commands::prompt_blocks(lengths, 7)) {
    EXPECT_EQ(block.first_prompt, tokens.empty() ? 0U : static_cast<std::size_t>(prompts.back()));
    tokens.push_back(block.tokens);
    prompts.push_back(static_cast<std::int64_t>(block.first_prompt + block.prompts));
  }
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{7, 10, 7}));
  EXPECT_EQ(prompts, (std::vector<std::int64_t>{2, 3, 6}));
}

}  // namespace
}  // namespace vindex::trace_prompts_test
