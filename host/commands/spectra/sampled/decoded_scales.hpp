// Owns the way from encoded views of a matrix to its sums over scales: weights are decoded some ten
// thousand at a time and added where they stand in storage order.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "statistics/scales/scale_sums.hpp"

#include <cstdint>
#include <optional>

namespace vindex::commands {

/// Adds the weights of `view`, which says where it lies in its matrix of `whole_cols` columns, to
/// `sums`, whose sequence is that matrix row by row as stored. Memory: kDecodedBytes.
void add_decoded(const decode::EncodedMatrix& view, std::int64_t whole_cols,
                 statistics::ScaleSums& sums);
/// Of a whole matrix in memory. `sign_key`: that of its sign-flip null, where
/// the figures of random signs are wanted.
statistics::ScaleFigures scales_of(const decode::EncodedMatrix& matrix,
                                   std::optional<std::uint64_t> sign_key);

/// Host memory of one thread while it adds to a pyramid: decoded weights.
inline constexpr std::uint64_t kDecodedBytes = sizeof(float) << 16U;

/// Where slabs of a matrix that is read piece by piece go. They may overlap and come again; each
/// weight counts once.
class SlabScales {
 public:
  SlabScales(std::int64_t rows, std::int64_t cols, std::optional<std::uint64_t> sign_key)
      : sums_(rows * cols, sign_key), rows_(rows), cols_(cols) {}
  /// Slabs of rows, or slabs of columns, the first of either in the order of their places; what
  /// begins behind a gap is left out.
  void add(const decode::EncodedMatrix& slab);
  bool is_complete() const { return sums_.is_complete(); }
  bool is_finite() const { return sums_.is_finite(); }
  statistics::ScaleFigures figures() const { return sums_.figures(); }

 private:
  statistics::ScaleSums sums_;
  std::int64_t rows_, cols_;
  std::int64_t next_row_ = 0, next_col_ = 0;  ///< the first that is missing
};

}  // namespace vindex::commands
