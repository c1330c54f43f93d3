// Owns staging memory of the host: for back ends and jobs that compute there.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstddef>
#include <memory>

namespace vindex::measure {

/// Page-aligned memory. Errors: OutOfMemory.
std::unique_ptr<StagingBuffer> make_host_staging(std::size_t bytes);

}  // namespace vindex::measure
