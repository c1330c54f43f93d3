// Owns parsing such words and refusing everything else.
#include "values.hpp"

#include "command.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <sstream>

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

CLI::Option* add_number(Command& command, const std::string& names, double& value,
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
  return command.add_value(names, value, help)->check(CLI::Validator(check, ""))->type_name(type);
}

namespace {
/// What a bare number below this is taken for: a number whose unit was left out.
constexpr double kFewestBareBytes = 65536.0;
}  // namespace

std::uint64_t parse_size(const std::string& text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  static constexpr std::array<Unit, 11> kUnits = {{{"", 1.0},
                                                   {"B", 1.0},
                                                   {"kB", 1e3},
                                                   {"KB", 1e3},
                                                   {"MB", 1e6},
                                                   {"GB", 1e9},
                                                   {"TB", 1e12},
                                                   {"KiB", 1024.0},
                                                   {"MiB", 1048576.0},
                                                   {"GiB", 1073741824.0},
                                                   {"TiB", 1099511627776.0}}};
  const std::size_t letters = text.find_first_not_of("0123456789.eE+-");
  const auto value = parse_number(std::string_view(text).substr(0, letters));
  const std::string unit = letters == std::string::npos ? "" : text.substr(letters);
  for (const Unit& known : kUnits) {
    const double bytes = value.value_or(0.0) * known.bytes;
    if (unit == known.name && bytes >= 1.0 && bytes < 9e18) {
      if (unit.empty() && bytes < kFewestBareBytes) {
        throw UsageError("E-SIZE", fmt::format("`{0}` is {0} bytes; did you mean {0}GiB?", text));
      }
      return static_cast<std::uint64_t>(bytes);
    }
  }
  throw UsageError(
      "E-SIZE",
      fmt::format("`{}` is not a size; write bytes or a number with kB, MB, GB, KiB, MiB or GiB",
                  printable(text)));
}

std::vector<std::int32_t> parse_devices(const std::string& text) {
  std::vector<std::int32_t> devices;
  if (text == "all") {
    return devices;
  }
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty() || word.size() > 3 ||
        word.find_first_not_of("0123456789") != std::string::npos) {
      throw UsageError(
          "E-DEVICE",
          fmt::format("--device `{}`: write all, a number, or numbers with commas", text));
    }
    devices.push_back(std::stoi(word));
  }
  if (devices.empty()) {
    throw UsageError("E-DEVICE", "--device names no device");
  }
  return devices;
}

SpectrumMode mode_of(const std::string& name) {
  static const std::map<std::string, SpectrumMode> kModes = {{"fast", SpectrumMode::kFast},
                                                             {"default", SpectrumMode::kDefault},
                                                             {"strict", SpectrumMode::kStrict}};
  return kModes.at(name);
}

}  // namespace vindex::apps
