// Owns the largest eigenvalues of a float32 Gram matrix from a reduction to a band that ends as
// soon as it has them, with bounds on both sides: the route of `fast`.
//
// After m columns Q^T G Q = [[T, E^T], [E, C]], T the band of block Lanczos and E one block R in
// the corner next to it. The largest eigenvalues t_i of T are lower bounds of G's (Cauchy). Let x I
// - C be positive definite, by a Cholesky factor U. For l >= x the Schur complement of l I - C in l
// I - G says that as many eigenvalues of G exceed l as
//
//   T + E^T (l I - C)^-1 E  <=  M = T + E^T (x I - C)^-1 E,   E^T (x I - C)^-1 E = |U^-T E|^2
//
// has above l (Sylvester, Haynsworth). So the eigenvalues of M, a band as T is, are upper bounds of
// all eigenvalues of G that are not below x, whatever their multiplicity: what a Krylov space has
// missed is in C, and then x I - C is not definite. x = t_64 is taken, where M is sharpest.
//
// Why not residuals of Ritz pairs (projection.hpp): they need the distance to the next value, which
// for the dense edge of noise costs another third of the columns; M needs none.
#pragma once

#include "cpu/tridiagonal/simd_tridiagonal.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vindex::cpu {

/// All in units of the matrix.
struct TopRequest {
  std::int64_t order = 0;     ///< of the matrix
  double sum_squares = 0.0;   ///< its trace: what shares are of
  double norm_squared = 0.0;  ///< ||G||_F^2
  float* room = nullptr;      ///< order x order; may be the matrix itself
  /// Error of each of the largest eigenvalues by rounding, from the norms of the passes
  /// (statistics::GramNorms::passes_norm_squared) and those values.
  std::function<statistics::SquareErrors(double passes, std::span<const double> largest)> errors;
};

/// True where a reduction may end early enough to be worth the looks.
bool may_end_early(std::int64_t order);

/// Ends a tridiagonalisation once statistics::kFastValues values are known as well as `fast`
/// promises.
class TopProbe final : public TridiagonalProbe {
 public:
  TopProbe(TopRequest request, Workspace& workspace);

  void begin(int exponent) override;
  bool wants_rest(std::span<const double> band, std::int64_t columns) override;
  float* room_for_rest(std::int64_t order) override;
  bool is_enough(std::span<const double> band, std::int64_t columns, std::int64_t order) override;
  void end(std::span<const double> band) override;

  /// Of a reduction that ended early, in units of the matrix: bounds of the values but for
  /// rounding, descending, and the errors by that. The norm of the passes is that of any.
  const std::vector<double>& lower() const { return lower_; }
  const std::vector<double>& upper() const { return upper_; }
  double passes_norm_squared() const { return passes_; }
  const statistics::SquareErrors& errors() const { return errors_; }
  /// Trace and squared norm of the band's part, by the eigenvalues found of it, with all that is
  /// beside it: those of the whole matrix but for rounding.
  double trace() const { return band_trace_ + rest_trace_; }
  double norm_squared() const { return band_norm_squared_ + rest_norm_squared_; }

 private:
  /// Eigenvalues of the band with `corner` added to its last block, the largest ones, descending.
  std::vector<double> top_of(std::span<const double> band, std::int64_t columns,
                             std::span<const double> corner);
  void set_passes(std::span<const double> band, std::int64_t columns);
  /// Sums over what is left, of `order`, and over what couples it to the band.
  void add_rest(std::span<const double> band, std::int64_t columns, std::int64_t order);
  /// How much wider the bounds are than they may be; at most 1 is enough.
  double excess() const;
  void plan_next_look(std::int64_t columns, double excess);

  TopRequest request_;
  Workspace& workspace_;
  double unit_ = 1.0;  ///< of the band, in those of the matrix
  std::int64_t next_look_ = 0, last_look_ = 0;
  std::int64_t looked_at_ = 0;
  double excess_there_ = 0.0;
  int failures_ = 0;
  std::vector<double> lower_, upper_;
  statistics::SquareErrors errors_;
  double passes_ = 0.0;
  double band_trace_ = 0.0, band_norm_squared_ = 0.0;  ///< of the eigenvalues behind lower_
  double rest_trace_ = 0.0, rest_norm_squared_ = 0.0;  ///< of C and, twice, E
};

}  // namespace vindex::cpu
