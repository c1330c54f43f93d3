// Rows of tokens in memory and in a file.
#include "commands/trace/tokens/token_rows.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace vindex::trace_rows_test {
namespace {

using commands::TokenRows;
using testing::error_of;
using testing::TemporaryFolder;

constexpr std::int64_t kTokens = 37, kWidth = 11;

std::vector<float> random_values(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

std::vector<float> all_of(const TokenRows& rows) {
  std::vector<float> values(static_cast<std::size_t>(rows.tokens() * rows.width()));
  rows.read(0, rows.tokens(), values.data());
  return values;
}

/// Writes, adds and clears, the same for every form.
std::vector<float> after_use(TokenRows& rows) {
  std::mt19937 random(7);
  rows.write(0, kTokens, random_values(kTokens * kWidth, random).data());
  rows.write(5, 3, random_values(3 * kWidth, random).data());
  const std::vector<std::int64_t> some = {2, 3, 4, 30, 2, 36};
  std::vector<float> gathered(some.size() * kWidth);
  rows.gather(some, gathered.data());
  rows.add(some, random_values(static_cast<std::int64_t>(some.size()), random), gathered.data());
  return all_of(rows);
}

TEST(TraceRowsTest, BothFormsGiveTheSameBits) {
  const TemporaryFolder folder;
  const auto memory = commands::make_rows_in_memory(kTokens, kWidth);
  const auto file = commands::make_rows_in_file(kTokens, kWidth, folder.path());
  EXPECT_EQ(all_of(*file), std::vector<float>(kTokens * kWidth, 0.0F));
  EXPECT_EQ(after_use(*memory), after_use(*file));
  EXPECT_EQ(memory->memory_bytes(), kTokens * kWidth * sizeof(float));
  EXPECT_EQ(file->memory_bytes(), 0U);
  file->set_zero();
  EXPECT_EQ(all_of(*file), std::vector<float>(kTokens * kWidth, 0.0F));
  EXPECT_TRUE(testing::names_in(folder.path()).empty());  // it has no name
}

TEST(TraceRowsTest, RowsComeInTheOrderAskedForAndAreAddedAsOftenAsNamed) {
  const auto rows = commands::make_rows_in_memory(4, 2);
  rows->write(0, 4, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}.data());
  std::vector<float> out(6);
  rows->gather(std::vector<std::int64_t>{3, 0, 1}, out.data());
  EXPECT_EQ(out, (std::vector<float>{7, 8, 1, 2, 3, 4}));
  rows->add(std::vector<std::int64_t>{1, 1}, std::vector<float>{2, 0.5F},
            std::vector<float>{10, 20, 100, 200}.data());
  EXPECT_EQ(all_of(*rows), (std::vector<float>{1, 2, 73, 144, 5, 6, 7, 8}));
}

TEST(TraceRowsTest, AFileKeepsItsRows) {
  const TemporaryFolder folder;
  const std::string path = folder / "rows";
  const std::vector<float> values = after_use(*commands::open_rows_file(kTokens, kWidth, path));
  EXPECT_EQ(all_of(*commands::open_rows_file(kTokens, kWidth, path)), values);
}

TEST(TraceRowsTest, NoRowOutsideIsTouched) {
  const auto rows = commands::make_rows_in_memory(4, 2);
  std::vector<float> values(20);
  for (const auto& [first, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 1}, {4, 1}, {0, 5}, {2, std::int64_t{1} << 62U}}) {
    EXPECT_NE(error_of([&] { rows->read(first, count, values.data()); }), "none");
    EXPECT_NE(error_of([&] { rows->write(first, count, values.data()); }), "none");
  }
  EXPECT_NE(error_of([] { commands::make_rows_in_memory(std::int64_t{1} << 40U, 1 << 30); }),
            "none");
}

}  // namespace
}  // namespace vindex::trace_rows_test
