// Owns words of the command line as values: numbers with a fraction, sizes, devices, modes. What
// one is, is said here, for every option and in one place.
#pragma once

#include "command.hpp"

#include "commands/spectra/measure_run.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::apps {

/// Bounds that a number may reach.
struct NumberRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

/// The whole of `text` as a decimal number that a double holds: "0.5", "-1", "1e-3". Nothing for
/// "nan", "inf", hexadecimal digits, what overflows, and what is no number.
std::optional<double> parse_number(std::string_view text);

/// An option of a finite number within `range`; every one of the program is made here, because
/// comparisons let "nan" pass.
CLI::Option* add_number(Command& command, const std::string& names, double& value,
                        const std::string& help, NumberRange range = {});

/// "8GiB", "500MB", "1073741824" as bytes. Errors: UsageError E-SIZE, also for a number so small
/// that its unit was forgotten ("16").
std::uint64_t parse_size(const std::string& text);

/// "all" (empty), "0", "0,2" as CUDA devices. Errors: UsageError E-DEVICE.
std::vector<std::int32_t> parse_devices(const std::string& text);

/// "fast", "default", "strict": names that the command line has checked.
SpectrumMode mode_of(const std::string& name);

}  // namespace vindex::apps
