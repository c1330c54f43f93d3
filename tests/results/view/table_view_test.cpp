// One description of a table gives what people read and what programs read; the first rows by a
// number, with rows that have none.
#include "results/view/table_view.hpp"

#include "results/view/first_rows.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace vindex::results::testing::table_view_test {
namespace {

struct Row {
  std::string name;
  double value = 0.0;
  int count = 0;
};

std::string two_digits(double value) { return std::to_string(static_cast<int>(value * 100.0)); }

TableView<Row> table() {
  TableView<Row> table;
  return table.printed("who", {}, &Row::name)
      .stored("name", &Row::name)
      .number("%", {.right = true}, "value", two_digits, &Row::value)
      .members([](const Row& row, Json& to) {
        if (row.count > 0) {
          to["count"] = row.count;
        }
      });
}

TEST(TableViewTest, ColumnsStandInTheirOrderForBoth) {
  const std::vector<Row> rows = {{"long name", 0.5, 3}, {"b", 0.125, 0}};
  EXPECT_EQ(table().text(rows, 80),
            "who         %\n"
            "long name  50\n"
            "b          12\n");
  EXPECT_EQ(table().json(rows).dump(),
            R"([{"name":"long name","value":0.5,"count":3},{"name":"b","value":0.125}])");
}

TEST(TableViewTest, WithoutRowsThereAreHeadingsAndAnEmptyList) {
  EXPECT_EQ(table().text(std::vector<Row>(), 80), "who  %\n");
  EXPECT_EQ(table().json(std::vector<Row>()).dump(), "[]");
}

TEST(FirstRowsTest, EqualOnesKeepTheirOrderAndNaNIsLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Row> all = {{"a", 1.0}, {"b", nan}, {"c", 2.0}, {"d", 1.0}};
  const auto first = [&](std::size_t count, bool is_ascending) {
    std::vector<Row> rows = all;
    keep_first(rows, count, is_ascending, [](const Row& row) { return row.value; });
    std::string names;
    for (const Row& row : rows) {
      names += row.name;
    }
    return names;
  };
  EXPECT_EQ(first(2, false), "ca");
  EXPECT_EQ(first(9, false), "cad");
  EXPECT_EQ(first(3, true), "adc");
  EXPECT_EQ(first(0, true), "");
}

}  // namespace
}  // namespace vindex::results::testing::table_view_test
