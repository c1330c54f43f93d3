// The partner of bench/speed/python_overhead.py: facade_calls ROWS COLS FILE measures the float32
// weights in FILE by the library's call in C++ each time that a line comes in, and prints the
// seconds that it took, of the wall and of processors.
#include <vindex/vindex.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("facade_calls ROWS COLS FILE\n", stderr);
    return 64;
  }
  const std::int64_t rows = std::atoll(argv[1]);
  const std::int64_t cols = std::atoll(argv[2]);
  std::vector<float> weights(static_cast<std::size_t>(rows * cols));
  std::ifstream file(argv[3], std::ios::binary);
  file.read(reinterpret_cast<char*>(weights.data()),
            static_cast<std::streamsize>(weights.size() * sizeof(float)));
  if (!file) {
    std::fputs("facade_calls: FILE is too short\n", stderr);
    return 66;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto began = std::chrono::steady_clock::now();
    const double processor = processor_seconds();
    const vindex::Spectrum found = vindex::spectrum(weights, rows, cols, {.backend = "cpu"});
    const double used = processor_seconds() - processor;
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("%.6f %.6f %.17g %s\n", wall, used, found.sigma.front(), found.method.c_str());
    std::fflush(stdout);
  }
  return 0;
}
