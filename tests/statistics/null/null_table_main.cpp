// Draws the noise that nulls are compared with, or makes the page of what was drawn:
//   null_table draw > tests/data/null_draws.csv        (two minutes)
//   null_table draw 24 >> tests/data/null_draws.csv    (shapes from number 24 on)
//   null_table page tests/data/null_draws.csv > docs/measuring/nulls.md
#include "null_table.hpp"

#include <cstdio>
#include <exception>
#include <string>

int main(int count, char** arguments) {
  using namespace vindex::test;
  try {
    if ((count == 2 || count == 3) && std::string(arguments[1]) == "draw") {
      const std::size_t first = count == 3 ? std::stoul(arguments[2]) : 0;
      if (first == 0) {
        std::puts("rows,cols,metric,draws,mean,error");
      }
      for (DrawnShape shape : null_table_shapes().subspan(first)) {
        shape.means = drawn_means(shape.rows, shape.cols, shape.draws, shape.seed);
        std::fputs(null_draw_lines(shape).c_str(), stdout);
        std::fflush(stdout);
      }
      return 0;
    }
    if (count == 3 && std::string(arguments[1]) == "page") {
      std::fputs(null_page(read_null_draws(arguments[2])).c_str(), stdout);
      return 0;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 70;
  }
  std::fputs("usage: null_table draw [FIRST] | null_table page FILE\n", stderr);
  return 64;
}
