// Owns writing theta into a report and reading it back from one.
#include "theta_report.hpp"

#include "core/json/json_scanner.hpp"
#include "organ/manifest/json_node.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <variant>

namespace vindex::organ {
namespace {

/// Of 100,000 tensors; a refusal keeps within little memory.
constexpr std::uint64_t kLargestReport = std::uint64_t{128} << 20U;
constexpr std::size_t kMaxReportTensorValues = 100'000;
constexpr std::size_t kMaxReportValues = 64'000'000;

std::optional<double> finite_number(const JsonValue* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  // Of a stack of experts: {"mean": ..., "sd": ...}.
  const std::optional<double> number = value->as_number();
  return number ? number : finite_number(value->find("mean"));
}

void add_theta(const JsonNode& tensor, std::map<std::string, double>& thetas) {
  const auto theta = finite_number(tensor.json().find("theta"));
  if (!theta) {
    return;  // measured without one: 1-D, all zero
  }
  if (!(*theta >= 0.0 && *theta <= 90.0)) {
    tensor["theta"].fail("an angle of 0 to 90 degrees is expected");
  }
  if (!thetas.emplace(tensor["name"].text(), *theta).second) {
    tensor["name"].fail("is there twice: the report of one model is expected");
  }
}

}  // namespace

std::map<std::string, double> read_theta_report(const std::string& path) {
  const JsonDocument document{"E-THETA", printable(path)};
  std::string text = read_json_text(path, kLargestReport, document);
  JsonLimits limits;
  limits.bytes = kLargestReport;
  limits.values = kMaxReportValues;
  JsonScanner scanner(text, document.where, limits);
  std::map<std::string, double> thetas;
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key != "tensors") {
      scanner.skip_value();
      continue;
    }
    scanner.enter_array();
    for (std::size_t i = 0; scanner.next_element(); ++i) {
      const JsonValue value = read_json_value(scanner, kMaxReportTensorValues);
      add_theta(JsonNode(&value, fmt::format("tensors[{}]", i), document), thetas);
    }
  }
  scanner.finish();
  if (thetas.empty()) {
    throw FormatError(document.error_id, document.where, "no tensor of \"tensors\" has a theta");
  }
  return thetas;
}

}  // namespace vindex::organ
