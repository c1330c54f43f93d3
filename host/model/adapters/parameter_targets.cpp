// Owns resolving those names to weights and ranks.
#include "adapter_config.hpp"

#include "core/text/nearest_name.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace vindex::model {
namespace {

// Paths of more or longer parts are no model's.
constexpr std::size_t kMaxTargets = 65'536;
constexpr std::size_t kLongestTarget = 512;
constexpr std::size_t kMaxParts = 64;
constexpr std::size_t kMaxOfOne = 16;  ///< parameters of a module

/// The order in which classes of experts declare their parameters.
constexpr std::array<std::string_view, 4> kDeclared = {"gate_up_proj", "gate_proj", "up_proj",
                                                       "down_proj"};

std::size_t declared_at(const std::string& leaf) {
  return static_cast<std::size_t>(std::find(kDeclared.begin(), kDeclared.end(), leaf) -
                                  kDeclared.begin());
}

/// Calls `use` for `path` and every end of it that follows a dot, the shortest first.
template <typename Use>
void each_end(const std::string& path, Use use) {
  std::size_t begin = path.size();
  for (std::size_t part = 0; part < kMaxParts && begin > 0; ++part) {
    const std::size_t dot = path.rfind('.', begin - 1);
    const std::size_t first = dot == std::string::npos ? 0 : dot + 1;
    if (path.size() - first > kLongestTarget) {
      return;
    }
    use(path.substr(first));
    begin = dot == std::string::npos ? 0 : dot;
  }
}

}  // namespace

ParameterTargets::ParameterTargets(const JsonValue& config) {
  const JsonValue* targets = config.find("target_parameters");
  if (targets == nullptr || targets->is_null()) {
    return;
  }
  const JsonValue::Array* list = targets->as_array();
  bool texts = list != nullptr && list->size() <= kMaxTargets;
  for (std::size_t i = 0; texts && i < list->size(); ++i) {
    const std::string* text = (*list)[i].as_string();
    texts = text != nullptr && !text->empty() && text->size() <= kLongestTarget;
    if (texts) {
      const std::size_t dot = text->rfind('.');
      const bool alone = dot == std::string::npos;
      parameters_[alone ? std::string() : text->substr(0, dot)].push_back(
          alone ? *text : text->substr(dot + 1));
    }
  }
  if (!texts) {
    throw ConfigurationError(
        "E-LORA-CONFIG",
        fmt::format(
            "adapter_config.json: target_parameters is not a list of at most {} names of at "
            "most {} bytes",
            kMaxTargets, kLongestTarget));
  }
  for (auto& [path, names] : parameters_) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.size() > kMaxOfOne) {
      throw ConfigurationError(
          "E-LORA-CONFIG",
          fmt::format("adapter_config.json: target_parameters names more than {} parameters of one "
                      "module",
                      kMaxOfOne));
    }
  }
  const JsonValue* modules = config.find("target_modules");
  const JsonValue::Array* names = modules == nullptr ? nullptr : modules->as_array();
  for (std::size_t i = 0; names != nullptr && i < std::min(names->size(), kMaxTargets); ++i) {
    const std::string* text = (*names)[i].as_string();
    if (text != nullptr && text->size() <= kLongestTarget) {
      modules_.insert(*text);
    }
  }
}

bool ParameterTargets::targets_module(const std::string& module) const {
  bool found = false;
  each_end(module, [&](const std::string& end) { found = found || modules_.contains(end); });
  return found;
}

ParameterTargets::Wrapped ParameterTargets::of(const std::string& module,
                                               std::size_t wrappers) const {
  Wrapped out;
  if (parameters_.empty()) {
    if (wrappers > 1) {
      out.unknown = "one of several pairs of a module without target_parameters";
    }
    return out;
  }
  std::vector<std::string>& found = out.parameters;
  const auto add = [&](const std::string& path) {
    const auto known = parameters_.find(path);
    if (known != parameters_.end()) {
      found.insert(found.end(), known->second.begin(), known->second.end());
    }
  };
  each_end(module, add);
  const bool named = !found.empty();
  add("");
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
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
