// Writes the sample results file for checks in other languages: write_sample PATH KIND, where KIND
// is default, fast, weighted (with rows of `--imatrix`), experts, cka, activations, routing or
// trace
#include "cell_run.hpp"
#include "sample_run.hpp"

#include "results/schema/schema.hpp"

#include <cstdio>
#include <exception>
#include <string>

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs(
        "usage: write_sample PATH default|fast|weighted|experts|cka|activations|routing|trace\n",
        stderr);
    return 64;
  }
  try {
    using vindex::results::FileSchema;
    using vindex::results::testing::cell_kinds;
    for (const FileSchema schema : cell_kinds()) {
      if (arguments[2] == std::string(vindex::results::writing_command(schema))) {
        vindex::results::testing::write_cells(arguments[1],
                                              vindex::results::testing::cell_run(schema));
        return 0;
      }
    }
    vindex::results::testing::SampleOptions options;
    const bool is_weighted = arguments[2] == std::string("weighted");
    options.mode = is_weighted ? "default" : arguments[2];
    options.sign_flip_draws = 4;
    options.vectors = options.mode == "fast" ? 0 : 4;
    options.rows = 96;
    options.cols = 80;
    vindex::results::testing::write_sample(
        arguments[1], is_weighted ? vindex::results::testing::weighted_run(options)
                                  : vindex::results::testing::sample_run(options));
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 70;
  }
  return 0;
}
