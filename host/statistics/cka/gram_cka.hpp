// Owns linear CKA of sets of vectors over the same n rows, of which nothing but their centred Gram
// matrices K = X X^T (columns of X centred) is known: both estimators of cka.hpp, exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

struct GramCka {
  double unbiased = 0.0;  ///< NaN below kMinCkaRows rows
  double biased = 0.0;
};

/// Takes the mean of the rows away from vectors [rows, width], row-major, and returns the products
/// of what is left, [rows, rows].
std::vector<double> centred_gram(std::span<const double> vectors, std::int64_t rows);

/// Standard deviation of the unbiased estimate over all orders of the rows of one side; its mean is
/// 0. Exact: with A and B U-centred (rows that sum to 0, diagonals 0) and a, b their sums of
/// squares over i != j, products of entries that share one row sum to -a, of those that share none
/// to 2 a, and so
///   E[<A, P B P^T>^2] = 2 a b / (n (n - 1)) + 4 a b / (n (n-1) (n-2))
///                       + 4 a b / (n (n-1) (n-2) (n-3)) = 2 a b / (n (n - 3)).
/// (The moments of Mantel 1967, of matrices whose rows sum to 0.) NaN below kMinCkaRows rows.
double permuted_cka_deviation(std::int64_t rows);

/// Of two of them, [rows, rows] row-major and symmetric. NaN where one of them has no kernel.
GramCka gram_cka(std::span<const float> left, std::span<const float> right, std::int64_t rows);

}  // namespace vindex::statistics
