// Owns the passes over one matrix: slab by slab from the input, chunk by chunk decoded to float32,
// changed as asked (scale, signs) and handed on. The first pass also takes the moments. The random
// signs are those of the sign-flip null (metrics contract): Philox4x32-10 (core/philox.hpp) keyed
// by the matrix, one bit per weight.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

namespace vindex::cpu {

/// Where the signs of a rectangle come from.
struct SignFlipPlace {
  std::uint64_t key = 0;   ///< low 32 bits are key word 0
  std::uint64_t draw = 0;  ///< upper 64 bits of the counter
  bool transposed = false;
  std::int64_t whole_rows = 0;  ///< of the matrix as stored
  std::int64_t whole_cols = 0;
  std::int64_t first_row = 0;  ///< of the rectangle, as stored
  std::int64_t first_col = 0;
};

/// Negates in place the weights of a rows x cols rectangle (row-major, `stride` floats between
/// rows) whose bit is 1: bit i mod 128 (word 0 first, least significant bit first) of counter i div
/// 128 for the logical row-major element i, `draw` being the counter's upper half.
void flip_signs(float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                const SignFlipPlace& place);

/// A chunk of the long side, row-major and tight: rows x cols floats as stored.
struct Tile {
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const decode::EncodedMatrix* encoded = nullptr;  ///< null where the weights were kept
  std::int64_t first = 0;  ///< position of its first row (row slabs) or column in the long side
};

/// What is done to the decoded weights before they are handed on.
struct TileChange {
  int scale_exponent = 0;                       ///< times 2^scale_exponent
  std::optional<std::uint64_t> sign_flip_draw;  ///< number of the draw of the sign-flip null
};

class TileReader {
 public:
  TileReader(MatrixInput& input, const SvdPlan& plan, Workspace& workspace);

  using UseTile = std::function<void(const Tile&)>;
  using UseSlab = std::function<void(const decode::EncodedMatrix&)>;

  /// Calls `use` on every chunk in order, and `use_slab` on every slab as encoded after its chunks
  /// (never in a pass over kept weights, nor where `change` asks for something). A first pass that
  /// meets a weight that is not finite goes on for the moments alone. Looks at the workspace's stop
  /// before every chunk. Errors of the input pass through.
  void pass(const TileChange& change, const UseTile& use, const UseSlab& use_slab = {});

  bool finite() const { return moments_.nonfinite == 0; }
  /// Of the weights as decoded; complete after the first pass.
  const decode::Moments& moments() const { return moments_; }
  double seconds() const { return seconds_; }  ///< spent reading and decoding so far

 private:
  void use_chunk(const decode::EncodedMatrix* encoded, std::int64_t first, std::int64_t count,
                 const TileChange& change, const UseTile& use);

  MatrixInput& input_;
  const SvdPlan plan_;
  const std::stop_token& stop_;  ///< the workspace's
  WorkArray<float> scratch_;
  WorkArray<float> kept_;
  decode::Moments moments_;
  bool first_pass_done_ = false;
  double seconds_ = 0.0;
};

}  // namespace vindex::cpu
