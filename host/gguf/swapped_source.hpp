// Owns reading of files of the other byte order: a source whose tensor data come out as this
// project's, whatever range is asked for. What lies outside the tensors is passed on as it is.
#pragma once
#include "header.hpp"

#include "core/files/byte_source.hpp"

#include <memory>
#include <vector>

namespace vindex::gguf {

/// `inner` with the multi-byte numbers in the data of `tensors` reversed (decode/byte_order.hpp).
/// A range that begins or ends within a block costs a small read more. Thread-safe as `inner` is.
std::unique_ptr<ByteSource> make_swapped_source(std::unique_ptr<ByteSource> inner,
                                                const std::vector<Tensor>& tensors);

}  // namespace vindex::gguf
