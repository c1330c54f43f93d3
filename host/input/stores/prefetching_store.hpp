// Owns reading ahead for headers and opening several files at once, for a store that pays for
// requests. The usual order is make_prefetching_store(make_retrying_store(store)).
#pragma once

#include "input/model_store.hpp"

#include <cstdint>
#include <memory>

namespace vindex::input {

/// For a store that answers slowly: `parallel_opens` files are opened side by side, and until the
/// header of one has been read, a caller that reads a part of it gets the first `first_bytes` in
/// one request and what follows in ever larger ones. A header of known length so costs one request,
/// or two where it is longer than the first.
struct PrefetchPolicy {
  std::int32_t parallel_opens = 16;
  std::uint64_t first_bytes = 64U << 10U;
};
std::shared_ptr<ModelStore> make_prefetching_store(std::shared_ptr<ModelStore> store,
                                                   const PrefetchPolicy& policy = {});

}  // namespace vindex::input
