// Owns the limits that rates are held against, measured in the same run: copying memory, BLAS on
// every worker at once, the bus to a GPU, the disk.
#pragma once

#include "report.hpp"
#include "sampling.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::throughput {

/// GB/s of memory written by one thread copying `bytes` (thread CPU time), as a row probe.memcpy.
Row memcpy_row(std::size_t bytes, const Sampling& sampling);
/// GB/s of memory written by `workers` threads at once (wall time).
Row memcpy_together_row(int workers, std::size_t bytes, const Sampling& sampling);

/// Milliseconds of OpenBLAS's ssyrk (float32) or dsyrk for a p x p Gram matrix over p, one on each
/// of `workers` threads at once, with the kernels that suit this processor best, whatever the user
/// forced upon the back end; without samples, saying why, where they cannot be had.
Row syrk_row(bool wide, std::int64_t p, int workers, const Sampling& sampling);
/// Flop per second and worker of the fastest sample of syrk_row().
double syrk_rate(const Row& row);

/// GB/s of a pinned copy of 256 MiB to CUDA device `device`, by the driver's own library; a row
/// without samples says why not.
Row bus_row(std::int32_t device, const Sampling& sampling);

/// GB/s of reading `paths` whole past the page cache (O_DIRECT, 8 MiB at a time, `readers`
/// threads); a row without samples where the file system cannot.
Row disk_row(const std::vector<std::string>& paths, int readers, const Sampling& sampling);

/// The part of all pages of `paths` that is in memory, as mincore says; nothing where it does not.
std::optional<double> resident_share(const std::vector<std::string>& paths);
/// Asks the system to forget the cached pages of `paths`; true where it did.
bool drop_from_page_cache(const std::vector<std::string>& paths);

}  // namespace vindex::throughput
