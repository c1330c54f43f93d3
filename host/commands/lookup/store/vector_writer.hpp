// Owns writing vectors as a file of gate vectors has them: in a type of 16 or 32 bits, one after
// the other, a digest of every block beside them, and what the type lost.
#pragma once

#include "decode/encoding/element_type.hpp"
#include "results/hdf5/hdf5.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands {

results::h5::Type stored_type(decode::ElementType type);

/// What became of one row.
struct EncodedRow {
  double squares = 0.0;  ///< norm of the row as decoded, squared; not finite where a weight is not
  double errors = 0.0;   ///< the same of stored - decoded
};

/// `row` in `type` (F16, BF16, F32: nearest, ties to even) to `out`. Errors: ConfigurationError
/// E-DTYPE (78) where a finite weight is beyond the type; `where` names the matrix.
EncodedRow encode_row(std::span<const float> row, decode::ElementType type,
                      std::span<std::byte> out, const std::string& where);

/// A dataset GROUP/vectors with its scales, and GROUP/block_sha256. Rows come in order, a multiple
/// of kGateChunkRows at a time but for the last ones.
class VectorWriter {
 public:
  /// Makes the dataset; its group exists. `scale`: GROUP/NAME, the rows' numbers.
  VectorWriter(results::h5::File& file, std::string group, const std::string& scale,
               decode::ElementType type, std::int64_t rows, std::int64_t cols);
  std::uint64_t row_bytes() const { return row_bytes_; }
  /// The next rows; digests are computed by `threads`.
  void write(std::span<const std::byte> rows, std::size_t threads);
  /// After the last row: the digests.
  void finish();

 private:
  results::h5::File& file_;
  std::string group_;
  std::uint64_t row_bytes_;
  std::int64_t rows_;
  results::h5::Dataset dataset_;
  std::int64_t next_ = 0;
  std::vector<std::int64_t> digests_;
};

}  // namespace vindex::commands
