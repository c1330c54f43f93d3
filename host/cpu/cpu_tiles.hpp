// Owns the passes over one matrix: slab by slab from the input, chunk by chunk decoded to float32,
// changed as asked (scale, signs) and handed on. The first pass also takes the moments.
#pragma once

#include "plan/svd_plan.hpp"
#include "seam.hpp"
#include "workspace.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace vindex::cpu {

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
  /// meets a weight that is not finite goes on for the moments alone. Errors of the input pass
  /// through.
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
  WorkArray<float> scratch_;
  WorkArray<float> kept_;
  decode::Moments moments_;
  bool first_pass_done_ = false;
  double seconds_ = 0.0;
};

}  // namespace vindex::cpu
