// Widths of UTF-8 in a terminal, shortening, tables that give way, and paragraphs.
#include "core/text/text_table.hpp"

#include "tests/support/file_content.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <sstream>

namespace vindex::text_table_test {
namespace {

using testing::lines_of;

TEST(TextTable, WidthsAreThoseOfATerminal) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("blk.0"), 5U);
  EXPECT_EQ(display_width("\u00fcber"), 4U);
  EXPECT_EQ(display_width("u\u0308ber"), 4U) << "a combining character takes no column";
  EXPECT_EQ(display_width("\u5c42\u5c42"), 4U);
  EXPECT_EQ(display_width("\U0001f600"), 2U);
  EXPECT_EQ(display_width("\u26a1\u2705"), 4U) << "emoji outside the block of emoji";
  EXPECT_EQ(display_width("\u304b\u3099"), 2U) << "a combining voiced sound mark";
  EXPECT_EQ(display_width(printable("\xff")), 4U);
}

TEST(TextTable, ShortenedKeepsTheEndThatWasAskedFor) {
  const std::string name = "model.layers.12.mlp.experts.37.down_proj.weight";
  EXPECT_EQ(shortened(name, 47, Keep::kEnd), name);
  EXPECT_EQ(shortened(name, 19, Keep::kEnd), "...down_proj.weight");
  EXPECT_EQ(shortened(name, 13, Keep::kStart), "model.laye...");
  EXPECT_EQ(shortened(name, 13, Keep::kBothEnds), "model...eight");
  EXPECT_EQ(shortened(name, 3, Keep::kEnd), "ght");
  EXPECT_EQ(shortened(name, 0, Keep::kEnd), "");
}

TEST(TextTable, NothingIsCutInsideACharacterAndNothingIsTooWide) {
  const std::string hostile = printable(
      "a\xff\u5c42\u0308\x1b[31m\U0001f600e\u0301\xc3(\u202e\t"
      "blk.7.\u5c42.weight");
  for (const Keep keep : {Keep::kStart, Keep::kEnd, Keep::kBothEnds}) {
    for (std::size_t width = 0; width <= 80; ++width) {
      const std::string text = shortened(hostile, width, keep);
      EXPECT_LE(display_width(text), width);
      EXPECT_EQ(printable(text), text) << "whole UTF-8 at width " << width;
      for (std::size_t at = text.find('\\'); at != std::string::npos;
           at = text.find('\\', at + 1)) {
        EXPECT_NE(hostile.find(text.substr(at, 4)), std::string::npos);
        EXPECT_EQ(text.substr(at, 4).size(), 4U) << "a whole escape at width " << width;
      }
    }
  }
}

TEST(TextTable, ColumnsAlignAndLinesEndWithoutSpaces) {
  const std::string text =
      table_text({{"name", "count", ""}, {"\u5c42", "1", "x"}, {"abc", "12345", ""}},
                 {{}, {.right = true}, {}}, 80, 2);
  EXPECT_EQ(text, "  name  count\n  \u5c42        1  x\n  abc   12345\n");
}

TEST(TextTable, ColumnsGiveWayInTheirOrder) {
  const std::vector<std::vector<std::string>> rows = {
      {"model.layers.12.mlp.experts.37.down_proj.weight", "routed_expert", "0.7", "down_proj"}};
  const std::vector<TextColumn> columns = {
      {.min_width = 12, .keep = Keep::kEnd}, {.dropped_as = 2}, {.right = true}, {.dropped_as = 1}};
  EXPECT_EQ(table_text(rows, columns, 80),
            "model.layers.12.mlp.experts.37.down_proj.weight  routed_expert  0.7  down_proj\n");
  EXPECT_EQ(table_text(rows, columns, 77),
            "model.layers.12.mlp.experts.37.down_proj.weight  routed_expert  0.7\n");
  EXPECT_EQ(table_text(rows, columns, 60),
            "model.layers.12.mlp.experts.37.down_proj.weight  0.7\n");
  EXPECT_EQ(table_text(rows, columns, 24), "...down_proj.weight  0.7\n");
  EXPECT_EQ(table_text(rows, columns, 10), "...oj.weight  0.7\n")
      << "what never gives way may be wider";
}

TEST(TextTable, CloseColumnsMoveTogetherBeforeAnythingIsLost) {
  const std::vector<std::vector<std::string>> rows = {{"12", "routed_expert", "0.7", "1.4", "16"}};
  const std::vector<TextColumn> columns = {{.right = true},
                                           {.min_width = 9, .keep = Keep::kStart, .is_close = true},
                                           {.right = true, .is_close = true},
                                           {.right = true, .is_close = true, .dropped_as = 1},
                                           {.right = true, .given_up_as = 1}};
  EXPECT_EQ(table_text(rows, columns, 31), "12  routed_expert  0.7  1.4  16\n");
  EXPECT_EQ(table_text(rows, columns, 30), "12 routed_expert 0.7 1.4  16\n");
  EXPECT_EQ(table_text(rows, columns, 28), "12 routed_expert 0.7 1.4  16\n");
  EXPECT_EQ(table_text(rows, columns, 27), "12  routed_expert  0.7  16\n") << "room again";
  EXPECT_EQ(table_text(rows, columns, 25), "12 routed_expert 0.7  16\n");
  EXPECT_EQ(table_text(rows, columns, 20), "12 routed... 0.7  16\n");
  EXPECT_EQ(table_text(rows, columns, 19), "12 routed_ex... 0.7\n") << "given up last";
  EXPECT_EQ(table_text(rows, columns, 10), "12 routed... 0.7\n");
}

TEST(TextTable, TheWidestColumnsAreShortenedFirst) {
  const std::vector<std::vector<std::string>> rows = {
      {std::string(40, 'a'), std::string(30, 'b'), std::string(10, 'c')}};
  const std::vector<TextColumn> columns = {{.min_width = 5}, {.min_width = 5}, {.min_width = 5}};
  for (std::size_t width = 19; width <= 84; ++width) {
    const std::string line = lines_of(table_text(rows, columns, width)).front();
    EXPECT_EQ(display_width(line), width) << line;
  }
  const std::string line = lines_of(table_text(rows, columns, 54)).front();
  EXPECT_NE(line.find(std::string(10, 'c')), std::string::npos) << line;
}

TEST(TextTable, AHostileNameCostsNoTime) {
  const std::string line =
      table_text({{std::string(20'000'000, 'a'), "1"}}, {{.min_width = 8}, {}}, kUsualWidth);
  EXPECT_EQ(line.size(), kUsualWidth + 1);
}

TEST(TextTable, ParagraphsBreakBetweenWords) {
  EXPECT_EQ(wrapped_text("one two three", 80), "one two three");
  EXPECT_EQ(wrapped_text("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped_text("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(wrapped_text("  one two three", 9, 4), "  one two\n    three");
  EXPECT_EQ(wrapped_text("   ", 9, 4), "   ");
  EXPECT_EQ(wrapped_text("a model.layers.0.weight b", 8), "a\nmodel.layers.0.weight\nb");
}

}  // namespace
}  // namespace vindex::text_table_test
