// Owns reading of keys whose value decides what is computed: of the first key that is there, a
// value of another type is refused by its name, where Claims (model_config.hpp) passes over it.
#pragma once

#include "model_config.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace vindex::model {

/// Names of a key in config.json and, without the architecture's prefix, in GGUF files.
struct KeyNames {
  std::initializer_list<std::string_view> config = {};
  std::initializer_list<std::string_view> gguf = {};
};

template <typename Value>
struct NamedValue {
  std::string key;
  Value value{};
};

/// Nothing where no key is there; null counts as that. Errors: ConfigurationError (78) of `id`,
/// which says the key, what it holds and what is needed, and ends with `advice`.
class StrictKeys {
 public:
  StrictKeys(const Claims& claims, std::string id, std::string what, std::string advice)
      : claims_(claims), id_(std::move(id)), what_(std::move(what)), advice_(std::move(advice)) {}

  /// A non-negative integer, or a list of equal ones (one a layer).
  std::optional<NamedValue<std::uint64_t>> count(const KeyNames& names) const;
  std::optional<NamedValue<double>> number(const KeyNames& names) const;
  std::optional<bool> boolean(const KeyNames& names) const;
  std::optional<NamedValue<std::string>> text(const KeyNames& names) const;

  /// Ends with "WHAT: why ADVICE".
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  template <typename Value, typename Read>
  std::optional<NamedValue<Value>> read(const KeyNames& names, std::string_view needed,
                                        Read value_of) const;

  const Claims& claims_;
  std::string id_, what_, advice_;
};

}  // namespace vindex::model
