// Owns judging GGUF files by the rules that ggml and llama.cpp hold them to, also files that they,
// or this project's own reader, refuse: every breach is a finding with an id, a place and what to
// do, and the reading goes on as far as it can. The rules are in docs/organs/organs.md. Source:
// ggml src/gguf.cpp, llama.cpp src/llama-model-loader.cpp.
#pragma once

#include "findings.hpp"

#include <cstdint>
#include <stop_token>
#include <string>

namespace vindex::organ {

struct VerifySettings {
  std::string path;            ///< a file, a split, a folder of GGUF files, an extracted folder
  bool check_tensors = false;  ///< decode every tensor: NaN, infinite values, bad scales
  std::int32_t threads = 0;
  std::stop_token stop = {};
};

/// Errors: MissingInputError where there is no such file or no GGUF file in the folder;
/// SystemError. Everything that is wrong inside of a file is a finding.
VerifyReport verify(const VerifySettings& settings);

}  // namespace vindex::organ
