// Owns which reports get draws of the sign-flip null and singular vectors beside their spectrum.
#pragma once

#include "backend/backend.hpp"
#include "statistics/null/sign_flip_null.hpp"

namespace vindex::statistics {

/// Begins the sign-flip null of a report whose judgement is complete. True where draws are to be
/// computed; what is not measured has none, and those of a zero matrix are that matrix.
bool begin_draws(const MeasureOptions& options, const SignFlipCollector& collector,
                 MatrixReport& report);

/// The same of singular vectors: true where there are some to compute.
bool begin_vectors(const MeasureOptions& options, MatrixReport& report);

}  // namespace vindex::statistics
