// A program test that compares models of its own making and reads what came out.
#pragma once

#include "tests/support/float_model.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace vindex::testing {

class CompareTest : public ProgramTest {
 protected:
  std::string compared(const std::string& a, const std::string& b, const std::string& name,
                       std::vector<std::string> more = {}, int exit_code = 0) {
    const std::string out = folder_.file(name + ".h5");
    std::vector<std::string> arguments = {"compare", a, b, "-o", out, "--progress", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    must(arguments, exit_code);
    must({"validate", out});
    return out;
  }
  /// Everything in /pair/ and /unpaired/, as text.
  std::map<std::string, std::string> content(const std::string& file) {
    std::map<std::string, std::string> all;
    for (const char* group : {"/pair/", "/unpaired/"}) {
      for (const std::string& name : list_group(file, group)) {
        std::string& text = all[group + name];
        try {
          for (const std::string& value : read_strings(file, group + name)) {
            text += value + "\n";
          }
        } catch (const std::runtime_error&) {
          const NumberTable table = read_numbers(file, group + name);
          text.assign(reinterpret_cast<const char*>(table.values.data()),
                      table.values.size() * sizeof(double));
        }
      }
    }
    return all;
  }
  /// A file of `tensors`, and its path.
  std::string model(const std::string& name, const std::vector<FloatTensor>& tensors) {
    const std::string path = folder_.file(name + ".safetensors");
    write_safetensors(path, tensors);
    return path;
  }
  static std::vector<FloatTensor> attention(unsigned seed) {
    const std::string prefix = "model.layers.0.self_attn.";
    return {noise_tensor(prefix + "q_proj.weight", {24, 20}, seed),
            noise_tensor(prefix + "k_proj.weight", {8, 20}, seed + 1),
            noise_tensor(prefix + "v_proj.weight", {8, 20}, seed + 2),
            noise_tensor(prefix + "o_proj.weight", {20, 24}, seed + 3)};
  }
};

}  // namespace vindex::testing
