// What tests of the library share: models on disk, and what the program makes of them.
#pragma once

#include "tests/support/float_model.hpp"
#include "tests/support/program/program.hpp"
#include <vindex/vindex.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

/// Equal as bits: NaN equals itself.
template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class LibraryTest : public ::testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& arguments) {
    return RunningProgram(VINDEX_PROGRAM, arguments, folder_ / "stream").finish();
  }
  std::string synthetic(const std::string& spec) {
    const std::string path = folder_ / "synthetic";
    EXPECT_EQ(run({"synth", spec, "-o", path, "-q"}).exit_code, 0);
    return path;
  }
  /// Float32 matrices of several shapes.
  std::string float_model() {
    std::vector<FloatTensor> tensors;
    for (const auto& [rows, cols] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{96, 160}, {130, 70}, {64, 64}}) {
      const auto number = static_cast<unsigned>(tensors.size());
      tensors.push_back(
          noise_tensor("model.layers." + std::to_string(number) + ".mlp.down_proj.weight",
                       {rows, cols}, number));
    }
    const std::string path = folder_ / "float.safetensors";
    write_safetensors(path, tensors);
    return path;
  }

  const MeasureSettings on_cpu_ = {.backend = "cpu"};
  TemporaryFolder folder_;
};

}  // namespace vindex::testing
