// Owns the choice of a unit and the rounding to three digits, such that no amount shows as 1000 of
// a unit.
#include "size_text.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace vindex {

std::string data_text(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  constexpr double kStep = 1000.0;
  // What three digits would round up to the next unit is one of that.
  constexpr double kRounded = 999.5;
  std::size_t unit = 0;
  while (bytes >= kRounded && unit + 1 < kUnits.size()) {
    bytes /= kStep;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits.at(unit));
}

std::string memory_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

}  // namespace vindex
