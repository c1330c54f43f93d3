// Owns reading a GGUF file that may break every rule: what is there, as far as it can be
// determined.
#pragma once

#include <vindex/decode/element_type.hpp>
#include <vindex/organ/verify.hpp>
#include <vindex/shard/byte_source.hpp>
#include <vindex/shard/gguf.hpp>

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

struct LintKey {
  std::string name;
  std::uint32_t type = 0;          ///< as in the file
  std::uint32_t element_type = 0;  ///< of an array
  std::uint64_t count = 0;         ///< of an array
  std::uint64_t bits = 0;          ///< of a number
  std::string text;                ///< of a string, its first kilobyte
  std::uint64_t position = 0;      ///< of the name
};

struct LintTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;
  std::uint32_t type_id = 0;
  std::optional<decode::ElementType> type;
  std::uint64_t offset = 0;            ///< relative to the data
  std::optional<std::uint64_t> bytes;  ///< nothing where shape or type cannot be
  std::uint64_t position = 0;          ///< of the entry
};

/// A tensor as findings name it.
std::string of_tensor(const LintTensor& tensor);

struct LintFile {
  std::string path;
  std::unique_ptr<shard::ByteSource> source;
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

/// "str", "u32"; "type 77" for what is none.
std::string value_type_text(std::uint32_t type);

/// Reads keys and table, judging each by itself.
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
