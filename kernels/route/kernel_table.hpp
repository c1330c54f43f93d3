// Owns the list of hand-written kernels that a measurement goes through. A table rather than direct
// calls, so that the self-tests judge what the measurement will run, and a test of the self-tests
// can put a wrong kernel in its place.
#pragma once

#include "kernels/band/band_back_transform.hpp"
#include "kernels/band/band_chase.hpp"
#include "kernels/band/band_reduction.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/gram/sliced_gram.hpp"
#include "kernels/tail/band_inverse.hpp"
#include "kernels/tridiagonal/tridiagonal_values.hpp"

namespace vindex::kernels {

struct KernelTable {
  decltype(&form_grams) gram = &form_grams;
  decltype(&add_sliced_gram) sliced_gram = &add_sliced_gram;
  decltype(&reduce_to_band<float, float>) band32 = &reduce_to_band<float, float>;
  decltype(&reduce_to_band<double, double>) band64 = &reduce_to_band<double, double>;
  decltype(&reduce_to_band_deferred) deferred_band = &reduce_to_band_deferred;
  decltype(&chase_bands<float, float>) chase32 = &chase_bands<float, float>;
  decltype(&chase_bands<float, double>) chase32_in_64 = &chase_bands<float, double>;
  decltype(&chase_bands<double, double>) chase64 = &chase_bands<double, double>;
  decltype(&tridiagonal_values) values = &tridiagonal_values;
  decltype(&back_transform<float>) back_transform32 = &back_transform<float>;
  decltype(&back_transform<double>) back_transform64 = &back_transform<double>;
  decltype(&factor_bands<float>) factor32 = &factor_bands<float>;
  decltype(&factor_bands<double>) factor64 = &factor_bands<double>;
  decltype(&solve_bands) solve = &solve_bands;
  decltype(&column_norms) norms = &column_norms;
};

}  // namespace vindex::kernels
