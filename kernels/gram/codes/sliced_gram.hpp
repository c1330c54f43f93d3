// Owns float64 Gram matrices of decoded weights by int8 tensor cores, for devices whose float64
// runs at 1/64 of float32 while they multiply bytes 400 times faster.
//
// Every weight of a line of the short side is an integer below 2^54 in units of 2^-53 of the line's
// largest exponent: exactly, as float32 weights are down to 2^-30 of the largest, else rounded
// there. The integer is cut into seven signed bytes; products of byte a of one line with byte b of
// another weigh 2^-8(a + b) and are added up in 32 bits, exactly, by their weight. Those of a + b
// below seven are formed, 28 of 49; the rest is some 2^-54 of the product of the lines' largest
// weights, of either sign. Sums of a weight, and of a segment of the contraction, are added in
// float64. So the result is as good as float64's, and exact where weights need four bytes
// (multiples of 2^-29 of the exponent: E4M3 codes under a scale of up to 11 bits) and sums fit 53
// bits.
//
// Weights, not codes: decoding rounds a code times a float32 scale to 24 bits, and what is measured
// are the rounded weights.
//
// Source: Ozaki, Ogita, Oishi, Rump 2012; Ootomo, Ozaki, Yokota 2024 (int8 slices).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

struct SlicedGramTask {
  /// Chunks of 128 steps whose sums 32 bits hold; fewer, so that tests may be small.
  static constexpr std::int64_t kSegmentChunks = 128;

  const double* slab = nullptr;  ///< float32 numbers: `length` x p, or p x `length`; row-major
  bool over_rows = false;        ///< the first: the contraction runs over stored rows
  std::int64_t length = 0, p = 0;
  bool first = false;        ///< overwrites instead of adding
  std::int64_t leading = 0;  ///< between columns of `gram`
  double* gram = nullptr;    ///< column-major; its lower triangle is written
  std::int64_t segment_chunks = kSegmentChunks;
};

/// Device bytes that add_sliced_gram() works in.
std::size_t sliced_gram_bytes(std::int64_t p, std::int64_t length);

/// What add_gram() (library/library_solver.hpp) does. Rows and columns of a line with a weight that
/// is not finite become NaN. `workspace` 1024-byte aligned. Ordered on `stream`, does not wait; the
/// same bits in every run. Errors: DeviceError.
void add_sliced_gram(const SlicedGramTask& task, void* workspace, cudaStream_t stream);

}  // namespace vindex::kernels
