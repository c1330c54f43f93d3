// Owns numbers with a fraction on the command line: what one is, for every flag and in one place.
#pragma once

#include <CLI/CLI.hpp>

#include <limits>
#include <optional>
#include <string>
#include <string_view>

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
CLI::Option* add_number(CLI::App& verb, const std::string& flags, double& value,
                        const std::string& help, NumberRange range = {});

}  // namespace vindex::apps
