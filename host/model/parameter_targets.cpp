#include "parameter_targets.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/nearest_name.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace vindex::model {
namespace {

// A list of more is no adapter's; every pair is held against all of them.
constexpr std::size_t kMostTargets = 4096;

/// The order in which classes of experts declare their parameters.
constexpr std::array<std::string_view, 4> kDeclared = {"gate_up_proj", "gate_proj", "up_proj",
                                                       "down_proj"};

std::size_t declared_at(const std::string& leaf) {
  return static_cast<std::size_t>(std::find(kDeclared.begin(), kDeclared.end(), leaf) -
                                  kDeclared.begin());
}

bool is_path_end(const std::string& path, const std::string& end) {
  return path == end || (path.size() > end.size() && path.ends_with(end) &&
                         path[path.size() - end.size() - 1] == '.');
}

}  // namespace

ParameterTargets::ParameterTargets(const JsonValue& config) {
  const JsonValue* targets = config.find("target_parameters");
  if (targets == nullptr || targets->is_null()) {
    return;
  }
  const JsonValue::Array* list = targets->as_array();
  bool texts = list != nullptr && list->size() <= kMostTargets;
  for (std::size_t i = 0; texts && i < list->size(); ++i) {
    const std::string* text = (*list)[i].as_string();
    texts = text != nullptr && !text->empty();
    if (texts) {
      targets_.push_back(*text);
    }
  }
  if (!texts) {
    throw ConfigurationError(
        "E-LORA-CONFIG",
        fmt::format("adapter_config.json: target_parameters is no list of names (at most {})",
                    kMostTargets));
  }
  const JsonValue* modules = config.find("target_modules");
  const JsonValue::Array* names = modules == nullptr ? nullptr : modules->as_array();
  for (std::size_t i = 0; names != nullptr && i < std::min(names->size(), kMostTargets); ++i) {
    if (const std::string* text = (*names)[i].as_string()) {
      modules_.push_back(*text);
    }
  }
}

bool ParameterTargets::targets_module(const std::string& module) const {
  return std::any_of(modules_.begin(), modules_.end(),
                     [&](const std::string& name) { return is_path_end(module, name); });
}

ParameterTargets::Wrapped ParameterTargets::of(const std::string& module,
                                               std::size_t wrappers) const {
  Wrapped out;
  std::vector<std::string>& found = out.parameters;
  bool named = false;
  for (const std::string& target : targets_) {
    const std::size_t dot = target.rfind('.');
    const std::string leaf = dot == std::string::npos ? target : target.substr(dot + 1);
    const bool holds = dot != std::string::npos && is_path_end(module, target.substr(0, dot));
    named = named || holds;
    if ((holds || dot == std::string::npos) &&
        std::find(found.begin(), found.end(), leaf) == found.end()) {
      found.push_back(leaf);
    }
  }
  if (!named && wrappers == 1 && targets_module(module)) {
    found.clear();
  }
  if (found.empty()) {
    if (wrappers > 1) {
      out.unknown = "target_parameters: none of them is of this module, which has several pairs";
    }
    return out;
  }
  out.certain = named || wrappers > 1;
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return declared_at(a) > declared_at(b); });
  const bool ordered = std::all_of(found.begin(), found.end(), [](const std::string& leaf) {
    return declared_at(leaf) < kDeclared.size();
  });
  if (found.size() != wrappers || (wrappers > 1 && !ordered)) {
    out.unknown = fmt::format("target_parameters: which of {} its {} pair{} of is unknown",
                              name_list(found), wrappers, wrappers == 1 ? " is" : "s are");
  }
  return out;
}

}  // namespace vindex::model
