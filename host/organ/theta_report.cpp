#include "json_node.hpp"
#include "recipe.hpp"

#include <cmath>
#include <optional>
#include <variant>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kLargestReport = std::uint64_t{1} << 30U;
constexpr std::size_t kMostValues = 64'000'000;

std::optional<double> number_of(const JsonValue* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  if (const auto* real = std::get_if<double>(&value->storage())) {
    return *real;
  }
  if (const std::uint64_t* whole = value->as_unsigned()) {
    return static_cast<double>(*whole);
  }
  // Of a stack of experts: {"mean": ..., "sd": ...}.
  return number_of(value->find("mean"));
}

}  // namespace

std::map<std::string, double> read_theta_report(const std::string& path) {
  const JsonDocument document{"E-THETA", printable(path)};
  const JsonValue json = read_json_file(path, kLargestReport, kMostValues, document);
  const JsonNode root(&json, {}, document);
  std::map<std::string, double> thetas;
  for (const JsonNode& tensor : root["tensors"].list()) {
    const auto theta = number_of(tensor.json().find("theta"));
    if (!theta) {
      continue;  // measured without one: 1-D, all zero
    }
    if (!(*theta >= 0.0 && *theta <= 90.0)) {
      tensor["theta"].fail("an angle of 0 to 90 degrees is wanted");
    }
    if (!thetas.emplace(tensor["name"].text(), *theta).second) {
      tensor["name"].fail("is there twice: the report of one model is wanted");
    }
  }
  if (thetas.empty()) {
    root["tensors"].fail("no tensor has a theta");
  }
  return thetas;
}

}  // namespace vindex::organ
