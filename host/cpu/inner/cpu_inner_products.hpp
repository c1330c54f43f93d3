// Owns sums of inner products on the host: blocks of weights decoded to float32, multiplied tile by
// tile in float32, summed over blocks in float64.
#pragma once

#include <vindex/measure/inner_products.hpp>

#include <memory>

namespace vindex::cpu {

/// Errors: OutOfMemory.
std::unique_ptr<measure::InnerProducts> make_cpu_inner_products(
    const measure::InnerProductShape& shape);

/// What they hold.
measure::InnerProductMemory cpu_inner_product_memory(const measure::InnerProductShape& shape);

}  // namespace vindex::cpu
