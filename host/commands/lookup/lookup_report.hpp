// Owns the report of a lookup.
#pragma once

#include "commands/lookup/features/lookup_result.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace vindex::commands {

/// Writes answers piece by piece, as they come: one JSON document of schema "vindex-lookup/2"
/// (docs/commands/lookup.md), or tables for people of `width` columns.
class LookupWriter {
 public:
  using Write = std::function<void(const std::string& text)>;
  LookupWriter(bool json, std::size_t width, Write write);
  void add(const LookupResult& result, const QueryResult& query);
  /// After the last query.
  void finish(const LookupResult& result);

 private:
  bool json_;
  std::size_t width_;
  Write write_;
  bool has_begun_ = false;
};

}  // namespace vindex::commands
