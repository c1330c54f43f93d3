// Owns the sums over rows that CKA is made of, in both of their forms: cross products of features
// (X^T Y, for many rows) and U-centred Gram matrices of rows (for few, and for the bootstrap).
// Products are those of a back end.
#pragma once

#include "activation_rows.hpp"
#include "layer_sums.hpp"

#include <vindex/measure/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::run {

/// Who multiplies, and with how many threads where that is the host.
struct Multiplier {
  measure::Backend& backend;
  std::int32_t threads = 1;
};

/// A layer in a pass over the rows: read in `order`, which has as many rows as every other of the
/// pass.
struct PassLayer {
  ActivationRows* rows = nullptr;
  const LayerSums* sums = nullptr;
  std::span<const RowRun> order;
};

/// Two layers of a pass; equal ones: a layer with itself.
struct PassPair {
  std::size_t left = 0;
  std::size_t right = 0;
};

/// ||X_left^T X_right||_F^2 of centred columns for each of `pairs`, in one pass over all layers,
/// `slab` rows of each at a time. Errors: OutOfMemory, DeviceError, those of reading.
std::vector<double> squared_cross_norms(const Multiplier& multiplier,
                                        std::span<const PassLayer> layers,
                                        std::span<const PassPair> pairs, std::int64_t slab);

/// The U-centred Gram matrix (measure/cka.hpp) of a layer at rows `rows` x `cols`, row-major;
/// elements of equal row numbers are 0.
std::vector<float> u_centred_block(const Multiplier& multiplier, const PassLayer& layer,
                                   RowRun rows, RowRun cols);

/// left x right inner products of equally long vectors of floats, row-major.
std::vector<double> vector_products(const Multiplier& multiplier,
                                    std::span<const std::vector<float>> left,
                                    std::span<const std::vector<float>> right);

/// Rows of a tile of u_centred_block() that are multiplied at once.
inline constexpr std::int64_t kGramTile = 1024;
/// Components of vector_products() that are handed over at once.
inline constexpr std::int64_t kVectorPiece = 1 << 20;
/// Elements of a block below which one thread is enough.
inline constexpr std::size_t kThreadedElements = std::size_t{1} << 18U;

}  // namespace vindex::run
