// Owns the sums of a Gram matrix in float32 over groups of the long side and in float64 over
// groups, and when they are kept so: decided after the first group (plan/precision.hpp). Nothing in
// the products changes; a group costs one pass over the matrix of sums.
#pragma once

#include "cpu/plan/precision.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

class GroupSums {
 public:
  /// `partial`: p x p, the upper triangle of which takes the products of a group.
  GroupSums(const SvdPlan& plan, float* partial, Workspace& workspace);

  /// Begins anew. `partial` is zero.
  void begin();
  /// A tile that will be added, the last of those over whose lines the sum of ||line||^4 is given.
  void see(const Tile& tile, double line_norms_squared);
  /// So many more of the long side are in `partial`, which is zeroed where they were taken.
  void added(std::int64_t rows);
  /// All are.
  void finish();

  /// kNarrow: `partial` holds all sums; kGrouped: matrix(); kWide: nothing does, and no more
  /// products need be formed.
  GramSums kind() const { return kind_; }
  /// Of the long side, what is missing to the end of a group: no more may be added at a time, so
  /// that groups do not depend on how much of the weights is at hand.
  std::int64_t room() const;
  /// Rows of groups that are all alike (statistics::GramArithmetic::group).
  std::int64_t like_groups() const { return cpu::like_groups(cubes_, plan_.long_side); }
  WorkArray<double>& matrix() { return wide_; }

 private:
  void decide();
  void take_group();

  const SvdPlan& plan_;
  float* partial_;
  Workspace& workspace_;
  std::int64_t group_ = 0;
  std::int64_t waiting_ = 0;
  double cubes_ = 0.0;  ///< of the rows of every group taken
  double first_line_norms_squared_ = 0.0;
  bool is_decided_ = false;
  GramSums kind_ = GramSums::kNarrow;
  WorkArray<double> wide_;
};

/// What is known of a Gram matrix already: of the long side, what it sums and what it is a part of;
/// its trace and squared Frobenius norm.
struct SummedRows {
  std::int64_t summed = 0;
  std::int64_t all = 0;
  double trace = 0.0;
  double norm_squared = 0.0;
};

/// What plan/precision.hpp wants to know of a p x p Gram matrix (upper triangle, column-major)
/// before it is reduced, from a Cholesky factor of outline_order() in float32.
/// Errors: OutOfMemory; Stopped.
SpectrumOutline outline_of(const float* gram, std::int64_t p, const SummedRows& rows,
                           Workspace& workspace);
SpectrumOutline outline_of(const double* gram, std::int64_t p, const SummedRows& rows,
                           Workspace& workspace);
/// Bytes that it takes, for any n.
std::uint64_t outline_bytes(std::int64_t p);

}  // namespace vindex::cpu
