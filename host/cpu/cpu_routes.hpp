// Owns the routes by which the CPU finds all singular values of one matrix: Gram matrix in float32
// or float64 and its eigenvalues, or QR and a bidiagonal form.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "seam.hpp"
#include "workspace.hpp"

#include <limits>
#include <vector>

namespace vindex::cpu {

/// Singular values by one route, and what decides whether they are good enough.
struct Outcome {
  std::vector<double> sigma;  ///< descending; empty where an iteration did not converge
  bool negative = false;      ///< an eigenvalue of the Gram came out negative
  std::int64_t dead = 0;  ///< values that are zero because a row or column is, taken out exactly
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  const char* method = "";
};

/// Exponent that brings the largest weight near 1; 0 where a float32 Gram is safe as it is.
int gram_scale_exponent(double max_abs);

/// Fills the upper triangle of the float32 Gram; where the weights turn out to be too large or too
/// small for that, does the pass again with `change.scale_exponent` set. Leaves rubbish where a
/// weight is not finite.
void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               float* gram, double& seconds);
/// The same in float64, which needs no scaling.
void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               double* gram, double& seconds);

/// float32 Gram and tridiagonal form. Empty where a weight is not finite; so are the others.
Outcome by_gram32(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report);
/// float64 Gram and tridiagonal form, whatever the condition: the largest values are as good as
/// any.
Outcome by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report);
Outcome by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change,
              Workspace& workspace, MatrixReport& report);
/// float64 Gram while its own estimate of the condition allows, QR beyond.
Outcome by_strict(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
