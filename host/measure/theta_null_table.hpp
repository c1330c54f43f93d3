// Owns the draws behind theta_null(): what iid noise gave, over its scaling with the shape.
#pragma once

namespace vindex::measure {

/// Mean theta of drawn p x n noise over the unit of theta_null(), at p rows and sqrt(p/n) = root;
/// between the shapes that were drawn linear in ln p and in root, beyond them as at the nearest.
/// p is at least kMinTabulatedTheta (drawn_nulls.hpp).
double theta_null_factor(double p, double root);

}  // namespace vindex::measure
