// Writes the sample results file for checks in other languages: write_sample PATH default|fast
#include "sample_run.hpp"

#include <cstdio>
#include <exception>

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: write_sample PATH default|fast\n", stderr);
    return 64;
  }
  try {
    vindex::results::testing::SampleOptions options;
    options.mode = arguments[2];
    options.sign_flip_draws = 4;
    options.vectors = options.mode == "fast" ? 0 : 4;
    options.rows = 96;
    options.cols = 80;
    vindex::results::testing::write_sample(arguments[1],
                                           vindex::results::testing::sample_run(options));
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 70;
  }
  return 0;
}
