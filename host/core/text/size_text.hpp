// Owns how amounts of bytes are spoken: what lies in files or moves in powers of ten, as storage is
// sold and rates are quoted; memory in powers of two, as budgets and machines have it.
#pragma once

#include <cstdint>
#include <string>

namespace vindex {

/// Bytes of a file, or of a transfer: "512 B", "18.6 MB", three digits; with "/s" behind it a rate.
std::string data_text(double bytes);
inline std::string data_text(std::uint64_t bytes) { return data_text(static_cast<double>(bytes)); }

/// Bytes of memory: "7.2 GiB".
std::string memory_text(std::uint64_t bytes);

}  // namespace vindex
