// Owns what a verification finds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
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

/// Collects findings; of one rule and file the first twenty stand one by one, the rest is counted.
class Findings {
 public:
  explicit Findings(VerifyReport& report) : report_(report) {}
  void set_file(std::string file);
  void add(const char* id, VerifyLevel level, std::string where, std::string what,
           std::string advice = {});
  void error(const char* id, std::string where, std::string what, std::string advice = {}) {
    add(id, VerifyLevel::kError, std::move(where), std::move(what), std::move(advice));
  }
  void warning(const char* id, std::string where, std::string what, std::string advice = {}) {
    add(id, VerifyLevel::kWarning, std::move(where), std::move(what), std::move(advice));
  }
  void note(const char* id, std::string where, std::string what, std::string advice = {}) {
    add(id, VerifyLevel::kNote, std::move(where), std::move(what), std::move(advice));
  }
  /// One line for each rule of which some are not listed.
  void finish_file();

 private:
  VerifyReport& report_;
  std::string file_;
  std::map<std::string, std::pair<VerifyLevel, std::uint64_t>> counts_;
};

}  // namespace vindex::organ
