// Owns what a CKA of two dumps costs and how it is cut: which form the products take, how many
// layers of either side are held at a time. A pure function of shapes and memory.
#pragma once

#include "backend/inner_products.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace vindex::commands {

struct CkaShape {
  std::int64_t rows = 0;  ///< compared
  std::int64_t layers_a = 0, layers_b = 0;
  std::int64_t width_a = 0, width_b = 0;  ///< of the widest layer
  std::int64_t permutations = 0;
  std::int64_t groups = 0;       ///< that the jackknife leaves out; 0: none
  std::int64_t group_pairs = 0;  ///< of rows of one group, all groups together
};

/// Multiplications (with their additions) of a whole run.
struct CkaCost {
  double estimate = 0.0;
  double permutations = 0.0;
  double jackknife = 0.0;
  double total() const { return estimate + permutations + jackknife; }
};

/// With Gram matrices of all rows: rows^2 a draw and pair of layers.
CkaCost cost_of_rows(const CkaShape& shape);
/// With cross products of features: rows x width_a x width_b a permutation and pair, and as much
/// again for the jackknife.
CkaCost cost_of_features(const CkaShape& shape);

struct CkaPlan {
  bool by_rows = false;     ///< Gram matrices of all rows at once, else cross products
  std::int64_t tile_a = 1;  ///< layers of A that are held together
  std::int64_t tile_b = 1;
  std::int64_t slab = 0;  ///< rows of every layer that are read at once, of cross products
  std::uint64_t memory_bytes = 0;
  CkaCost cost;
};

/// What inner products of a shape hold on the host (Backend::inner_product_memory()).
using InnerProductBytes = std::function<std::uint64_t(const InnerProductShape&)>;

/// The cheaper form whose memory fits `budget` bytes, and the largest tiles that fit: layers of B
/// are read layers_a / tile_a times, those of A layers_b / tile_b times. Where nothing fits, the
/// least there is: compare `memory_bytes`.
CkaPlan plan_cka(const CkaShape& shape, std::int32_t threads, const InnerProductBytes& bytes,
                 std::uint64_t budget);

/// "cross products of features, 2.1e+13 multiplications for the estimate, ...": for people.
std::string plan_text(const CkaShape& shape, const CkaPlan& plan);

}  // namespace vindex::commands
