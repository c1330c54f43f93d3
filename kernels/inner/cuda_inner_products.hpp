// Owns sums of inner products on a device: slabs are copied there as they are encoded, decoded, and
// multiplied by the library in float32; sums are float64.
#pragma once

#include <vindex/measure/inner_products.hpp>

#include <cstdint>
#include <memory>

namespace vindex::kernels {

/// On `device`. Errors: OutOfMemory, DeviceError.
std::unique_ptr<measure::InnerProducts> make_cuda_inner_products(
    std::int32_t device, const measure::InnerProductShape& shape);

/// What they hold; the device a copy of the slabs and what lies beside them too.
measure::InnerProductMemory cuda_inner_product_memory(const measure::InnerProductShape& shape);

}  // namespace vindex::kernels
