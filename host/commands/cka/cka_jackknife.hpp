// Owns the products <A, B> of U-centred kernels (statistics/cka/cka.hpp) over the rows without each
// group of rows in turn, in both forms of commands/cka/cka_products.hpp. Exact, and made of sums
// that are linear in the groups, so that all of them together cost about what the product over all
// rows does.
//
// Rows, from the U-centred A and B over all rows, whose rows sum to 0 (what a sum over S adds to
// them, U-centring over S takes away): for S the rows without those of P, n' of them,
//   <A, B>_S = <A, B> - 2 sum_{i in P} sum_j A_ij B_ij + sum_{i, j in P} A_ij B_ij
//              + a b / ((n' - 1) (n' - 2)) - 2 / (n' - 2) sum_{i in S} a_i b_i,
// a_i = sum_{j in P} A_ij, a = sum_{i in P} a_i, and b_i, b of B: Song's estimator.
//
// Features, from M = X^T Y of columns centred over all rows: with s, t the sums of X and Y over P,
//   ||X_S^T Y_S||^2 = ||M||^2 - 2 sum_P x_i^T M y_i + sum_{i, j in P} K_ij L_ij
//                     - 2 / n' (s^T M t - sum_P (x_i s)(y_i t)) + |s|^2 |t|^2 / n'^2
// of columns centred over S, whose mean is -s / n'; traces and the diagonal follow likewise.
#pragma once

#include "cka_products.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::commands {

/// <A, B> without each group.
using ProductsWithout = std::vector<double>;

/// Two U-centred Gram matrices of all rows, what their scales make of a product of elements, and
/// <A, B> itself.
struct BlockPair {
  const std::vector<float>* left = nullptr;
  const std::vector<float>* right = nullptr;
  double unscale = 1.0;
  double product = 0.0;
};

/// Of each of `pairs`; `groups` tile the rows. NaN where fewer than kMinCkaRows rows are left.
std::vector<ProductsWithout> products_without(std::span<const BlockPair> pairs,
                                              std::span<const engine::RowRun> groups,
                                              const std::stop_token& stop = {});
/// Memory of it beside the matrices.
std::uint64_t products_without_bytes(std::int64_t rows, std::int64_t layers);

/// The same of layers and their cross products, `pairs[i]` those of `cross[i]`; `order` of all
/// layers is that of the file. Errors: OutOfMemory, DeviceError, those of reading.
std::vector<ProductsWithout> products_without(const Multiplier& multiplier,
                                              std::span<const PassLayer> layers,
                                              std::span<const PassPair> pairs,
                                              std::span<const CrossProduct> cross,
                                              std::span<const engine::RowRun> groups);

/// Rows of a layer that it holds at once.
inline constexpr std::int64_t kDeletedRows = 512;

}  // namespace vindex::commands
