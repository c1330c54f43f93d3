// Owns llama.cpp's importance matrix: the mean squared activation of every input of every matrix,
// in either of its two formats, and which of a model's matrices they belong to. Layouts:
//
//   GGUF   general.type "imatrix"; per matrix NAME two F32 tensors:
//            NAME.in_sum2  [inputs (, slices)]  sums of squared activations
//            NAME.counts   [1 (, slices)]       how many were summed: for all slices, or each
//   .dat   entries i32, then per entry
//            name length i32, name, calls i32, values i32, f32 x values (mean square x calls)
//          and, since 2024, calls of the whole run i32, length i32, name of the data set
//
// The values of a stack (experts, heads) lie slice after slice. All numbers little-endian, except
// in a big-endian GGUF file. Source: llama.cpp tools/imatrix, tools/quantize.
#pragma once

#include "input/local/file_source.hpp"
#include "model/model_index.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::model {

/// One matrix or stack of matrices of the file.
struct ImportanceEntry {
  std::string name;               ///< GGUF tensor name, raw bytes
  std::uint64_t offset = 0;       ///< of its values
  std::uint64_t value_count = 0;  ///< inputs of all slices together
  std::vector<double> divisors;   ///< per slice, or one; 0: never used
};

/// An importance matrix, its structure and every value checked. Values stay in the file.
class ImportanceMatrix {
 public:
  /// Errors: FormatError E-IMATRIX... (65) naming the byte offset of what is malformed, not finite
  /// or negative; those of gguf::read_header() and of `source`.
  explicit ImportanceMatrix(std::unique_ptr<ByteSource> source);

  const std::vector<ImportanceEntry>& entries() const { return entries_; }
  const std::vector<Warning>& warnings() const { return warnings_; }
  const std::string& name() const { return source_->name(); }
  const std::string& sha256() const { return sha256_; }         ///< of the whole file, hexadecimal
  const SourceIdentity& identity() const { return identity_; }  ///< at opening

  /// `count` values at `offset` (within an entry). Errors: SystemError E-INPUT-CHANGED (74).
  std::vector<float> read_values(std::uint64_t offset, std::uint64_t count) const;

 private:
  void read_gguf();
  void read_dat();
  void check_entries() const;
  std::vector<float> floats_at(std::uint64_t offset, std::uint64_t count) const;
  /// Errors: SystemError E-INPUT-CHANGED (74).
  void require_unchanged() const;

  std::unique_ptr<ByteSource> source_;
  SourceIdentity identity_;
  std::string sha256_;
  bool big_endian_ = false;
  std::vector<ImportanceEntry> entries_;
  std::vector<Warning> warnings_;
};

/// Opens the file that `address` names. Errors: those of the constructor and of open_input().
std::shared_ptr<const ImportanceMatrix> open_importance_matrix(const std::string& address,
                                                               const std::stop_token& stop = {});

/// Adds to `index` and `selected` a row of /imatrix/ for every selected matrix that `file` has
/// activations for: by the tensor's own name, else by layer, block, role and expert, so that the
/// file of a GGUF model serves its Hugging Face original. What has none is reported in
/// index.warnings. Errors: UsageError E-IMATRIX-MODEL (64) where it has none for any selected
/// matrix.
void weigh_columns(const std::shared_ptr<const ImportanceMatrix>& file, ModelIndex& index,
                   std::vector<std::int64_t>& selected);

/// The roots of the mean squared activations of the `cols` inputs of a row of /imatrix/. Errors:
/// those of read_values().
std::vector<double> activation_scale(const MatrixRecord& matrix);

}  // namespace vindex::model
