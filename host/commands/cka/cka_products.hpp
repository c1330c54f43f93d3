// Owns the sums over rows that CKA is made of, in both of their forms: cross products of features
// (X^T Y, for many rows) and U-centred Gram matrices of rows (for few). Products are those of a
// back end.
//
// Also owns what is known of a layer's activations before any product: the mean of every column and
// the squared norm of every centred row.
#pragma once

#include "backend/backend.hpp"
#include "commands/token_tables/activation_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::commands {

struct LayerSums {
  std::vector<double> means;      ///< per column
  std::vector<double> row_norms;  ///< squared, of rows less `means`
  double trace = 0.0;             ///< their sum
  bool is_finite = true;          ///< no value is NaN, infinite or beyond kMaxActivation; the rest
                                  ///< is otherwise of no use
  double kernel_scale = 1.0;      ///< power of two that brings trace / rows to [1, 2)
};

/// Sizes of values beyond which differences and sums of them leave float32.
inline constexpr double kMaxActivation = 1e36;

/// Reads `rows` twice, `slab` rows at a time. Sums in float64 of values as float32, in a fixed
/// order.
LayerSums layer_sums(engine::ActivationRows& rows, std::int64_t slab);

/// sum_i left_i right_order(i): `order` are the runs of rows of the right side.
double norms_product(const LayerSums& left, const LayerSums& right,
                     std::span<const engine::RowRun> order);

/// Who multiplies, and with how many threads where that is the host.
struct Multiplier {
  Backend& backend;
  std::int32_t threads = 1;
  std::stop_token stop = {};
};

/// A layer in a pass over the rows: read in `order`, which has as many rows as every other of the
/// pass.
struct PassLayer {
  engine::ActivationRows* rows = nullptr;
  const LayerSums* sums = nullptr;
  std::span<const engine::RowRun> order;
};

/// Two layers of a pass; equal ones: a layer with itself.
struct PassPair {
  std::size_t left = 0;
  std::size_t right = 0;
};

/// X_left^T X_right of centred columns.
struct CrossProduct {
  double squared_norm = 0.0;      ///< ||X_left^T X_right||_F^2
  std::vector<float> transposed;  ///< X_right^T X_left over `scale`, row-major, where it was kept
  double scale = 1.0;             ///< a power of two
};

/// Of each of `pairs`, in one pass over all layers, `slab` rows of each at a time; `keep`: the
/// matrices too. Errors: OutOfMemory, DeviceError, those of reading.
std::vector<CrossProduct> cross_products(const Multiplier& multiplier,
                                         std::span<const PassLayer> layers,
                                         std::span<const PassPair> pairs, std::int64_t slab,
                                         bool keep);

/// The rows of `run` in a layer's order, less the means of its columns; row-major.
std::vector<float> centred_rows(const PassLayer& layer, engine::RowRun run);

/// Inner products of the rows of `left` with those of `right`, each `width` long; with themselves
/// where `right` is empty. Row-major, left rows x right rows.
std::vector<double> row_products(const Multiplier& multiplier, std::span<const float> left,
                                 std::span<const float> right, std::int64_t width);

/// LayerSums::kernel_scale times the U-centred Gram matrix (statistics/cka/cka.hpp) of a layer at
/// rows `rows` x `cols`, row-major; elements of equal row numbers are 0.
std::vector<float> u_centred_block(const Multiplier& multiplier, const PassLayer& layer,
                                   engine::RowRun rows, engine::RowRun cols);

/// Of two, in float64 and on several threads where they are long.
double vector_product(const std::vector<float>& a, const std::vector<float>& b);

/// left x right inner products of equally long vectors of floats, row-major.
std::vector<double> vector_products(const Multiplier& multiplier,
                                    std::span<const std::vector<float>> left,
                                    std::span<const std::vector<float>> right);

/// sum_k a_k b_k in float64, in eight sums side by side.
double float_dot(std::span<const float> a, const float* b);

/// Rows of a tile of u_centred_block() that are multiplied at once.
inline constexpr std::int64_t kGramTile = 1024;
/// Components of vector_products() that are handed over at once.
inline constexpr std::int64_t kVectorPiece = 1 << 20;
/// Elements of a block below which one thread is enough.
inline constexpr std::size_t kThreadedElements = std::size_t{1} << 18U;

}  // namespace vindex::commands
