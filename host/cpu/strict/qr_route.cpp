// Owns the step by QR and a bidiagonal form (cpu_routes.hpp).
#include "qr_route.hpp"

#include "strict_qr.hpp"

#include "backend/backend.hpp"
#include "cpu/tridiagonal/tridiagonal.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "statistics/judgement/step_result.hpp"
#include "statistics/judgement/tail_values.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace vindex::cpu {

statistics::StepResult by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                             statistics::StepResult before, std::int64_t lost, Workspace& workspace,
                             MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  statistics::StepResult found = std::move(before);
  found.negative = false;
  found.tail_errors.clear();
  WorkArray<double> r(workspace, p * p, "the triangular factor");
  triangular_factor(reader, plan, change, workspace, r.data(), report.seconds_gram);
  if (reader.finite()) {
    const Stopwatch watch(report.seconds_eigen);
    if (lost > 0 && lost <= max_tail_values(p)) {
      const std::vector<double> tail =
          smallest_singular_values(r.data(), p, lost, found.sigma.front(), workspace);
      // The iteration finds singular values, but nothing in it says that they are the smallest: the
      // float64 Gram, good to its own rounding, does.
      if (statistics::is_tail_of(tail, found.sigma, statistics::gram64_square_error(found.sigma))) {
        std::copy(tail.begin(), tail.end(), found.sigma.end() - lost);
        std::sort(found.sigma.begin(), found.sigma.end(), std::greater<>());
        found.tail_errors.assign(tail.size(),
                                 static_cast<double>(p) * 0x1p-52 * found.sigma.front());
        found.method = is_reduced_by_band(p, plan.library_only) ? "qr+band64+cpu" : "qr+trd64+cpu";
        return found;
      }
    }
    found.sigma = singular_values_by_bidiagonal(r.data(), p, workspace);
  }
  found.method = "qr+bidiag64+cpu";
  return found;
}

}  // namespace vindex::cpu
