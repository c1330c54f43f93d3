// Owns what the rules of a verification share: a GGUF file that may break every rule, as far as a
// walk came, and the findings.
#pragma once

#include "core/files/byte_source.hpp"
#include "decode/encoding/element_type.hpp"
#include "gguf/walker.hpp"
#include "organ/verify.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

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

/// A key as the walk met it.
struct LintKey : gguf::WalkedKey {
  std::string text;  ///< of a string, its first kilobyte
};

struct LintTensor : gguf::WalkedTensor {
  std::optional<decode::ElementType> type;
  std::optional<std::uint64_t> bytes;  ///< nothing where shape or type cannot be
};

/// A tensor as findings name it.
std::string of_tensor(const gguf::WalkedTensor& tensor);

struct LintFile {
  std::string path;
  std::unique_ptr<ByteSource> source;
  std::uint32_t version = 0;
  bool big_endian = false;
  std::vector<LintKey> keys;
  std::vector<LintTensor> tensors;
  std::uint64_t alignment = 32;
  std::uint64_t header_end = 0;   ///< behind the table
  std::uint64_t data_offset = 0;  ///< header_end, aligned
  bool complete = false;          ///< all keys and all entries were read

  const LintKey* key(std::string_view name) const;
  /// A number of an integer type; nothing otherwise.
  std::optional<std::uint64_t> number(std::string_view name) const;
};

/// Walks through the file, judging keys and entries each by itself.
void read_lint_file(LintFile& file, Findings& findings);
/// Judges how the data lie.
void lint_layout(const LintFile& file, Findings& findings);
/// Judges files as a set, split keys and names. `set`: they were found by one name.
void lint_set(const std::vector<LintFile>& files, Findings& findings);
/// Judges keys and tensors as a model.
void lint_model(const std::vector<LintFile>& files, Findings& findings);
/// Decodes every tensor.
void lint_values(const std::vector<LintFile>& files, const VerifySettings& settings,
                 Findings& findings, VerifyReport& report);

}  // namespace vindex::organ
