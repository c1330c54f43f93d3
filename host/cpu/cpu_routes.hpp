// Owns the steps by which the CPU finds all singular values of one matrix: Gram matrix in float32
// or float64 and its eigenvalues, or QR and a bidiagonal form. Findings lack the moments, which the
// reader has.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "seam.hpp"
#include "tail/reduced_gram.hpp"
#include "workspace.hpp"

namespace vindex::cpu {

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

/// Roundings in an entry of the float64 Gram of by_gram64().
double gram64_terms(const SvdPlan& plan);

/// float32 Gram, its diagonal exact, and tridiagonal form. `sigma` is empty where a weight is not
/// finite; so are the others'. `kept`, where given, is set to what by_tail() wants, if the form was
/// reached through a band of the whole matrix.
Finding by_gram32(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report, ReducedGram* kept = nullptr);
/// float64 Gram and tridiagonal form.
Finding by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report, ReducedGram* kept = nullptr);
/// QR. `before`: what by_gram64() found, or nothing where it did not run; of its values the `lost`
/// smallest are found again where that is cheaper, else (and for 0) all.
Finding by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change, Finding before,
              std::int64_t lost, Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
