// Replays a GGUF target over its corpus and over mutations of it, the same in every build: the
// main program where libFuzzer's is not linked.
#include "gguf_mutator.hpp"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {
constexpr std::size_t kMutations = 20'000;
constexpr std::size_t kMaxBytes = 1U << 16U;

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}
}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> inputs;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      std::ifstream stream(entry.path(), std::ios::binary);
      inputs.emplace_back((std::istreambuf_iterator<char>(stream)),
                          std::istreambuf_iterator<char>());
      run(inputs.back());
    }
  }
  if (inputs.empty()) {
    return 1;
  }
  // Mutations of mutations, each tenth added to what is mutated next.
  std::mt19937_64 random(1);
  const std::size_t files = inputs.size();
  for (std::size_t i = 0; i < kMutations; ++i) {
    std::string bytes =
        vindex::fuzz::mutated_gguf(inputs[random() % inputs.size()], random, kMaxBytes);
    run(bytes);
    if (i % 10 == 0) {
      inputs.push_back(std::move(bytes));
    }
  }
  std::printf("%zu inputs and %zu mutations replayed\n", files, kMutations);
  return 0;
}
