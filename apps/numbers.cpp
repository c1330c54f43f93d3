// Owns parsing a decimal number and refusing everything else.
#include "numbers.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace vindex::apps {

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return std::nullopt;
    }
  }
  const auto value = whole_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

CLI::Option* add_number(CLI::App& verb, const std::string& flags, double& value,
                        const std::string& help, NumberRange range) {
  const bool is_bounded = range.min > std::numeric_limits<double>::lowest() ||
                          range.max < std::numeric_limits<double>::max();
  std::string expected = "a finite decimal number";
  std::string type = "NUMBER";
  if (is_bounded && range.max < std::numeric_limits<double>::max()) {
    expected = fmt::format("a number from {:g} to {:g}", range.min, range.max);
    type = fmt::format("NUMBER in [{:g} - {:g}]", range.min, range.max);
  } else if (is_bounded) {
    expected = fmt::format("a finite number, not below {:g}", range.min);
  }
  const auto check = [range, expected](const std::string& text) {
    const auto number = parse_number(text);
    return number && *number >= range.min && *number <= range.max
               ? std::string()
               : fmt::format("`{}` is not {}", printable(text), expected);
  };
  return verb.add_option(flags, value, help)->check(CLI::Validator(check, ""))->type_name(type);
}

}  // namespace vindex::apps
