// Owns reference eigenvalues for the stages of the symmetric eigenvalue problem, by LAPACK in
// float64, and the test matrices that stages after the first start from.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace vindex::test {

/// Symmetric tridiagonal matrix; off_diagonal has n entries, the last zero.
struct Tridiagonal {
  std::vector<double> diagonal, off_diagonal;
};

/// Ascending eigenvalues. Source: LAPACK dsterf.
std::vector<double> values_of(const Tridiagonal& matrix);

/// Largest of |a_i - b_i|; infinity where one is NaN or the sizes differ.
double largest_difference(std::span<const double> a, std::span<const double> b);
double largest_magnitude(std::span<const double> values);

/// Tridiagonal matrices that eigenvalue solvers find hard, of any order.
/// Source: Demmel, Marques, Parlett, Voemel 2008 (the LAPACK tridiagonal test set), its ideas.
struct NamedTridiagonal {
  std::string name;
  Tridiagonal matrix;
};
std::vector<NamedTridiagonal> hard_tridiagonals(std::int64_t n, std::uint64_t seed);

/// The lower triangle of a symmetric matrix of half bandwidth 32, column by column: element (i, j)
/// at j * 33 + i - j, LAPACK's band storage.
std::vector<double> band_of_noise(std::int64_t n, std::uint64_t seed);
/// Ascending eigenvalues of such a matrix. Source: LAPACK dsbev.
std::vector<double> values_of_band(std::vector<double> band, std::int64_t n);

}  // namespace vindex::test
