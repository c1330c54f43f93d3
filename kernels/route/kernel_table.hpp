// Owns the list of hand-written kernels that a measurement goes through. A table rather than direct
// calls, so that the self-tests judge what the measurement will run, and a test of the self-tests
// can put a wrong kernel in its place.
#pragma once

#include "kernels/band/back_transform/band_back_transform.hpp"
#include "kernels/band/back_transform/wide_back_transform.hpp"
#include "kernels/band/chase/band_chase.hpp"
#include "kernels/band/chase/shared_chase.hpp"
#include "kernels/band/deferred/deferred_band.hpp"
#include "kernels/band/inverse/band_inverse.hpp"
#include "kernels/band/reduction/band_reduction.hpp"
#include "kernels/gram/codes/code_slices.hpp"
#include "kernels/gram/codes/sliced_gram.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/tridiagonal/tridiagonal_values.hpp"

namespace vindex::kernels {

struct KernelTable {
  decltype(&form_grams) gram = &form_grams;
  decltype(&add_sliced_gram) sliced_gram = &add_sliced_gram;
  decltype(&form_code_grams) code_grams = &form_code_grams;
  decltype(&reduce_to_band<float>) band32 = &reduce_to_band<float>;
  decltype(&reduce_to_band<double>) band64 = &reduce_to_band<double>;
  decltype(&reduce_to_band_deferred) deferred_band = &reduce_to_band_deferred;
  decltype(&chase_bands<float, float>) chase32 = &chase_bands<float, float>;
  decltype(&chase_bands<float, double>) chase32_in_64 = &chase_bands<float, double>;
  decltype(&chase_bands<double, double>) chase64 = &chase_bands<double, double>;
  decltype(&shared_chase<float, float>) shared_chase32 = &shared_chase<float, float>;
  decltype(&shared_chase<float, double>) shared_chase32_in_64 = &shared_chase<float, double>;
  decltype(&shared_chase<double, double>) shared_chase64 = &shared_chase<double, double>;
  decltype(&tridiagonal_values) values = &tridiagonal_values;
  decltype(&tridiagonal_values32) values32 = &tridiagonal_values32;
  decltype(&back_transform<float>) back_transform32 = &back_transform<float>;
  decltype(&back_transform<double>) back_transform64 = &back_transform<double>;
  decltype(&wide_back_transform) wide_back_transform32 = &wide_back_transform;
  decltype(&factor_bands<float>) factor32 = &factor_bands<float>;
  decltype(&factor_bands<double>) factor64 = &factor_bands<double>;
  decltype(&solve_bands) solve = &solve_bands;
  decltype(&column_norms) norms = &column_norms;
};

}  // namespace vindex::kernels
