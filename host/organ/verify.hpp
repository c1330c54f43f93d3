// Owns judging GGUF files by the rules that ggml and llama.cpp hold them to, also files that they,
// or this project's own reader, refuse: every breach is a finding with an id, a place and what to
// do, and the reading goes on as far as it can. The rules are in docs/organs/organs.md. Source:
// ggml src/gguf.cpp, llama.cpp src/llama-model-loader.cpp.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

enum class VerifyLevel : std::uint8_t { kError, kWarning, kNote };
/// "error", "warning", "note".
const char* level_name(VerifyLevel level);

struct VerifyFinding {
  std::string id;  ///< stable: "V-OFFSET-GAP"
  VerifyLevel level = VerifyLevel::kError;
  std::string file = {};    ///< path; empty: of the model as a whole
  std::string where = {};   ///< "byte 2048", "tensor \"a\"", "key \"b\""
  std::string what = {};    ///< what is wrong
  std::string advice = {};  ///< what to do; empty where nothing is to be done
};

struct VerifySettings {
  std::string path;            ///< a file, a split, a folder of GGUF files, an extracted folder
  bool check_tensors = false;  ///< decode every tensor: NaN, infinite values, bad scales
  std::int32_t threads = 0;
  std::stop_token stop = {};
};

struct VerifyReport {
  std::vector<std::string> files = {};
  std::uint64_t tensors = 0;
  std::uint64_t tensors_checked = 0;
  std::vector<VerifyFinding> findings =
      {};                    ///< in the order of files and bytes, errors of the model last
  std::uint64_t errors = 0;  ///< counted also where they are not listed one by one
  std::uint64_t warnings = 0;
  std::uint64_t notes = 0;
  bool stopped = false;
};

/// Errors: MissingInputError where there is no such file or no GGUF file in the folder;
/// SystemError. Everything that is wrong inside of a file is a finding.
VerifyReport verify(const VerifySettings& settings);

}  // namespace vindex::organ
