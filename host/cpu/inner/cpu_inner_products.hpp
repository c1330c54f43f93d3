// Owns sums of inner products on the host: blocks of weights decoded to float32, multiplied tile by
// tile in float32, summed over blocks in float64.
#pragma once

#include "backend/inner_products.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace vindex::cpu {

/// Errors: OutOfMemory.
std::unique_ptr<InnerProducts> make_cpu_inner_products(const InnerProductShape& shape);

/// What they hold.
InnerProductMemory cpu_inner_product_memory(const InnerProductShape& shape);

}  // namespace vindex::cpu
