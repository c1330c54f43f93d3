// Lists of queries: those of files are made one at a time, and again.
#include "commands/lookup/queries/query_list.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::commands::query_list_test {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

std::string text_of(const QueryRequest& request) { return std::get<TokenText>(request.what).text; }

TEST(QueryList, LinesAreMadeWhenTheyAreAskedFor) {
  const TemporaryFolder folder;
  const QueryList queries = read_queries(folder.write("q.txt", "one\n\n two\r\nthree"));
  ASSERT_EQ(queries.size(), 3U);
  EXPECT_TRUE(queries.needs_vocabulary());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(text_of(queries[0]), "one");
    EXPECT_EQ(text_of(queries[1]), " two");
    EXPECT_EQ(text_of(queries[2]), "three");
  }
  EXPECT_TRUE(queries[1].where.ends_with("q.txt, line 3"));
}

TEST(QueryList, PartsStandBehindEachOther) {
  const TemporaryFolder folder;
  QueryList queries(std::vector<QueryRequest>{{.what = TokenNumber{7}}, {.what = TokenNumber{8}}});
  EXPECT_FALSE(queries.needs_vocabulary());
  queries.add(read_vectors(
      folder.write("v.npy", testing::npy_array(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}))));
  queries.add(QueryList());
  queries.add(read_queries(folder.write("q.jsonl", "5\n{\"vector\": [1, 2], \"name\": \"x\"}\n")));
  ASSERT_EQ(queries.size(), 7U);
  EXPECT_EQ(std::get<TokenNumber>(queries[1].what).number, 8);
  const auto row = std::get<VectorRow>(queries[4].what);
  EXPECT_EQ(row.row, 2);
  EXPECT_EQ(read_rows(*row.file, row.row, 1), (std::vector<float>{5, 6}));
  EXPECT_EQ(std::get<TokenNumber>(queries[5].what).number, 5);
  EXPECT_EQ(queries[6].name, "x");
  EXPECT_FALSE(queries.needs_vocabulary());
  queries.add(read_queries(folder.write("t.jsonl", "{\"tokens\": [3, \"word\"]}\n")));
  EXPECT_TRUE(queries.needs_vocabulary());
}

TEST(QueryList, EveryLineAndRowIsCheckedAtOnce) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_queries(folder.write("a.jsonl", "5\n{}\n")); }), "E-QUERY");
  EXPECT_EQ(error_of([&] { read_queries(folder.write("b.jsonl", "5\n[\n")); }),
            "E-JSON-SYNTAX @ 1");
  EXPECT_EQ(error_of([&] { read_queries(folder.write("c.txt", "\n\r\n")); }), "E-QUERY");
  std::vector<float> values(300'000 * 2, 1.0F);  // more than is read at a time
  values[599'998] = values[599'999] = 0.0F;
  const std::string path = folder.write("z.npy", testing::npy_array(values, {300'000, 2}));
  EXPECT_NE(testing::message_of([&] { read_vectors(path); }).find("row 299999 is zero"),
            std::string::npos);
}

TEST(QueryList, MoreThanFourMillionLinesAreRefused) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 4'000'001; ++i) {
    text += "a\n";
  }
  const std::string path = folder.write("many.txt", text);
  EXPECT_EQ(error_of([&] { read_queries(path); }), "E-QUERY");
}

}  // namespace
}  // namespace vindex::commands::query_list_test
