// Owns the rules of a GGUF file's tensor table: each entry alone, and the layout of the data that
// the entries describe together. Keeps 24 bytes per entry.
#pragma once
#include "header.hpp"
#include "walker.hpp"

#include <vindex/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::gguf {

/// Tells whether a name occurred before, without keeping names: by two independent 64-bit hashes.
/// Names that nobody crafted do not collide in both; a crafted pair makes a crafted file refused.
class FingerprintList {
 public:
  void add(std::string_view name, std::uint64_t position);
  /// Position of the earliest entry whose name occurred before. Sorts the list.
  std::optional<std::uint64_t> duplicate();

 private:
  struct Entry {
    std::uint64_t first_hash;
    std::uint64_t second_hash;
    std::uint64_t position;
  };
  std::vector<Entry> entries_;
};

/// Judges the entries of a walk, field by field and then together. Errors of every member:
/// FormatError E-GGUF-*.
class TensorTable {
 public:
  explicit TensorTable(BufferedReader& reader) : reader_(reader) {}

  /// The file says general.architecture = bitnet*, whose fork reuses type id 39.
  void set_bitnet(bool bitnet) { bitnet_ = bitnet; }
  void judge_name(const WalkedTensor& tensor);
  void judge_rank(const WalkedTensor& tensor, std::uint32_t rank) const;
  void judge_shape(const WalkedTensor& tensor) const;
  void judge_type(const WalkedTensor& tensor);
  /// The whole entry as a tensor, its offset still relative to the data.
  Tensor take(WalkedTensor& tensor, std::uint64_t alignment);

  /// After the last entry: names unique, every tensor inside the file, none overlapping another;
  /// what is merely unusual goes to `warnings`.
  void check(std::uint64_t data_offset, std::uint64_t alignment, std::vector<Warning>& warnings);

 private:
  struct Extent {
    std::uint64_t begin;  ///< relative to the data
    std::uint64_t bytes;
    std::uint64_t entry;  ///< position of the table entry
  };

  [[noreturn]] void fail(const WalkedTensor& tensor, std::uint64_t position, const char* id,
                         const std::string& why) const;
  std::uint64_t shape_position(const WalkedTensor& tensor, std::uint64_t behind) const;
  void check_range(std::uint64_t data_offset) const;
  void check_layout(std::uint64_t data_offset, std::uint64_t alignment,
                    std::vector<Warning>& warnings);
  void check_padding(const std::vector<Extent>& paddings, std::vector<Warning>& warnings);
  /// Added where sizes disagree: a fork's files may hold another type under MXFP4's id.
  const char* fork_hint() const;
  void warn(std::vector<Warning>& warnings, const char* id, const std::string& text) const;

  BufferedReader& reader_;
  bool bitnet_ = false;
  bool mxfp4_ = false;  ///< some tensor has type 39
  FingerprintList names_;
  std::vector<Extent> extents_;
};

}  // namespace vindex::gguf
