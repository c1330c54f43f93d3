// Owns CKA of some layers of A with some of B: estimates, permutations and the estimates without
// each group, made of the sums of commands/cka/cka_products.hpp and commands/cka/cka_jackknife.hpp.
//
// Permutation: groups of B's rows (prompts; rows where there are none) change places within their
// strata (commands/cka/cka_rows.hpp).
#pragma once

#include "cka_jackknife.hpp"
#include "cka_plan.hpp"
#include "cka_products.hpp"

#include "statistics/cka/cka.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace vindex::commands {

/// Of a layer with itself.
struct SelfSums {
  double u_centred = std::numeric_limits<double>::quiet_NaN();  ///< ||A||_F^2
  double squared = std::numeric_limits<double>::quiet_NaN();    ///< ||X^T X||_F^2
  bool has_kernel = false;  ///< ||A||^2 is more than rounding leaves: there is something to align
  ProductsWithout without;  ///< ||A||_F^2 without each group, where they were asked for
};

/// A layer as a tile uses it; `self` is filled where it is empty. All must outlive the tile.
struct TileLayer {
  engine::ActivationRows* rows = nullptr;
  const LayerSums* sums = nullptr;
  std::optional<SelfSums>* self = nullptr;
};

struct TileDraws {
  std::span<const engine::RowRun> groups;      ///< of the compared rows; they tile them
  const statistics::Strata* strata = nullptr;  ///< of groups; unused without permutations
  std::int64_t permutations = 0;
  bool jackknife = false;
};

/// CKA, and without each group where those were asked for.
struct Estimate {
  double cka = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> without;
  double directions = 1.0;  ///< that both layers vary in (statistics/cka/cka.hpp)
};

/// Of one pair of layers.
struct TilePair {
  Estimate estimate;
  double biased = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> permuted;  ///< cka of each permutation
};

struct TileResult {
  std::vector<TilePair> pairs;     ///< [left, right]
  std::vector<Estimate> adjacent;  ///< of left i with its next
};

/// `next[i]`: the layer after left i as a number among `left`, or left.size() + number among
/// `nexts`; -1: none. Layers that are not finite and those without a kernel give NaN. Errors: those
/// of reading, OutOfMemory, DeviceError.
TileResult measure_tile(const Multiplier& multiplier, const CkaPlan& plan,
                        std::span<const TileLayer> left, std::span<const TileLayer> right,
                        std::span<const TileLayer> nexts, std::span<const std::int64_t> next,
                        const TileDraws& draws);

}  // namespace vindex::commands
