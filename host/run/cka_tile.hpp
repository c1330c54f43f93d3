// Owns CKA of some layers of A with some of B: estimates, permutations and bootstrap draws, made of
// the sums of run/cka_products.hpp.
//
// Permutation: the groups of B's rows (prompts; rows where there are none) in another order, whole
// and one after the other. Bootstrap: groups are drawn with replacement; with w_p the number of
// times group p was drawn, the pair of rows (i, j) counts w_p w_q times where they are of different
// groups p, q, and w_p times where both are of group p: a copy of a group is not beside itself, and
// no row is a partner of its own copy. Both kernels stay as U-centred over all rows, which the
// estimate does not feel to first order.
#pragma once

#include "cka_plan.hpp"
#include "cka_products.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace vindex::run {

/// Of a layer with itself.
struct SelfSums {
  double u_centred = std::numeric_limits<double>::quiet_NaN();  ///< ||A||_F^2
  double squared = std::numeric_limits<double>::quiet_NaN();    ///< ||X^T X||_F^2
};

/// A layer as a tile uses it; `self` is filled where it is empty. All must outlive the tile.
struct TileLayer {
  ActivationRows* rows = nullptr;
  const LayerSums* sums = nullptr;
  std::optional<SelfSums>* self = nullptr;
};

struct TileDraws {
  std::span<const RowRun> groups;  ///< of the compared rows; they tile them
  std::int64_t permutations = 0;
  std::int64_t resamples = 0;
};

/// Of one pair of layers.
struct TilePair {
  double cka = std::numeric_limits<double>::quiet_NaN();
  double biased = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> permuted;   ///< cka of each permutation
  std::vector<double> resampled;  ///< cka of each draw of the bootstrap
};

struct TileResult {
  std::vector<TilePair> pairs;   ///< [left, right]
  std::vector<double> adjacent;  ///< cka of left i with its next
};

/// `next[i]`: the layer after left i as a number among `left`, or left.size() + number among
/// `nexts`; -1: none. Layers that are not finite give NaN. Errors: those of reading, OutOfMemory,
/// DeviceError.
TileResult measure_tile(const Multiplier& multiplier, const CkaPlan& plan,
                        std::span<const TileLayer> left, std::span<const TileLayer> right,
                        std::span<const TileLayer> nexts, std::span<const std::int64_t> next,
                        const TileDraws& draws);

}  // namespace vindex::run
