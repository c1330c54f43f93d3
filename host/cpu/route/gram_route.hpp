// Owns the route of most matrices: a Gram matrix in float32 or float64 and its eigenvalues. Results
// lack the moments, which the reader has.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/tridiagonal/reduced_gram.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/step_result.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Roundings in an entry of the float64 Gram of by_gram64().
double gram64_terms(const SvdPlan& plan);

/// float32 Gram, its diagonal exact, and tridiagonal form, where the plan allows it in as much of
/// float64 as the spectrum needs (plan/precision.hpp). `sigma` is empty where a weight is not
/// finite; so are the others'. `kept`, where given, is set to what by_tail() wants, if the form was
/// reached through a band of the whole matrix. With `top_alone` the reduction ends once the largest
/// kFastValues values are known as well as `fast` promises, if they are before its end.
statistics::StepResult solve_by_gram32(TileReader& reader, const SvdPlan& plan,
                                       const TileChange& change, Workspace& workspace,
                                       MatrixReport& report, ReducedGram* kept = nullptr,
                                       bool top_alone = false);
/// float64 Gram and tridiagonal form.
statistics::StepResult by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                                 Workspace& workspace, MatrixReport& report,
                                 ReducedGram* kept = nullptr);

}  // namespace vindex::cpu
