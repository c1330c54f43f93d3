// Owns the edit of many keys at once, and what its covariance must be.
#pragma once

#include "low_rank_edit.hpp"

#include <cstdint>
#include <stop_token>
#include <string>

namespace vindex::edit {

/// How well the equations of a MEMIT edit were conditioned.
struct MemitCondition {
  double keys = 1.0;  ///< of K^T C^-1 K + ridge I: largest over smallest eigenvalue
  /// Of C, in the 1-norm, which is not below the largest over the smallest eigenvalue and at most
  /// `in` times it; LAPACK's estimate (pocon), seldom below a third of the true one.
  double covariance = 1.0;
};

/// Refuses a covariance that is not of `side` inputs; `where` names it. Errors: FormatError
/// E-EDIT-SHAPE.
void require_covariance_sides(std::int64_t rows, std::int64_t cols, std::int64_t side,
                              const std::string& where);

/// Refuses other counts of keys and of values (columns). Errors: FormatError E-EDIT-SHAPE.
void require_pairs(std::int64_t keys, std::int64_t values);

/// Refuses what is no covariance of `side` inputs; `where` names it. Errors: FormatError
/// E-EDIT-SHAPE; E-EDIT-VALUES for what is not finite or not symmetric.
void require_covariance(const Matrix& covariance, std::int64_t side, const std::string& where);

/// W + D (K^T C^-1 K + ridge I)^-1 K^T C^-1 for keys K (in x n) and values D (out x n); no
/// covariance: C = I. Solved by Cholesky factors in float64, of the lesser of n and `in` sides:
/// more keys than inputs go through the equal D M^T (M M^T + ridge I)^-1 L^-1, C = L L^T, L M = K.
/// Source: Meng et al., "Mass-editing memory in a transformer", ICLR 2023, eq. 14. Errors:
/// UsageError E-USAGE for a ridge that is negative or not finite; FormatError E-EDIT-SHAPE where
/// sides disagree, E-EDIT-VALUES for what is not finite; those of require_covariance();
/// ConfigurationError E-EDIT-SINGULAR (78) where the equations have no solution in float64, with
/// what to do; Stopped. Equations of more than 2048 sides are solved block by block, and their
/// last bits are those of the blocks.
LowRankEdit memit(const Matrix& keys, const Matrix& values, const Matrix* covariance, double ridge,
                  MemitCondition& condition, const std::stop_token& stop = {});

}  // namespace vindex::edit
