// Owns the way to the pass over the trailing matrix by binary16 parts; who wants a pass calls
// update_and_multiply() (band_update.hpp), which says what it computes.
#pragma once

#include "band_panel.hpp"
#include "trailing_pass.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// strip_rows_for() of this pass.
std::int64_t half_strip_rows_for(std::size_t shared_bytes);

/// update_and_multiply() in BandArithmetic::kTensor and float32.
void update_and_multiply_halves(const TrailingPass<float>& pass, cudaStream_t stream);

}  // namespace vindex::kernels
