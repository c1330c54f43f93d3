// Owns the MatrixInput that presents W diag(d) where another input has W: every back end measures
// it as a matrix of float32, and its sign flips are those of W.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vindex::measure {

/// `inner` with its logical column j (stored row j where transposed) times column_scale[j], rounded
/// once to float32: encoding F32, slabs decoded into a buffer of its own, which release() frees.
/// `in_memory()` is false, so that back ends ask for slabs and not for all at once. Errors: those
/// of `inner`.
std::unique_ptr<MatrixInput> make_scaled_input(std::unique_ptr<MatrixInput> inner,
                                               std::vector<double> column_scale);

/// Most bytes of that buffer for a matrix of that shape, as back ends ask for slabs today: 32 MiB
/// or 1024 positions of the long side, and what rounding to whole blocks adds.
std::uint64_t scaled_slab_bytes(std::int64_t rows, std::int64_t cols);

}  // namespace vindex::measure
