// Owns the queries of a run in their order. Those of files are made when they are asked for: a list
// of a million holds the text of the file, or nothing of it, and not a million vectors.
#pragma once

#include "lookup_queries.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands {

/// Cheap to copy: copies share what they hold.
class QueryList {
 public:
  QueryList() = default;
  QueryList(std::vector<QueryRequest> requests);

  void add(QueryList more);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Query `i`. Errors: those of reading it again, which a file that changed meanwhile gives.
  QueryRequest operator[](std::size_t i) const;
  /// Whether one of them has a token's text.
  bool needs_vocabulary() const;

 private:
  class Part;
  class Given;
  class Rows;
  class Lines;
  friend QueryList read_vectors(const std::string& path);
  friend QueryList read_queries(const std::string& path);
  explicit QueryList(std::shared_ptr<const Part> part);

  std::vector<std::pair<std::size_t, std::shared_ptr<const Part>>> parts_;  ///< by first query
  std::size_t size_ = 0;
};

/// Rows of a .npy file of floats, [width] or [queries, width]; every row is read once, none is
/// kept. Errors: FormatError E-QUERY (65) for other shapes and types, and for a row that is zero or
/// not finite; those of read_npy_header().
QueryList read_vectors(const std::string& path);

/// A file of queries: `.npy` as read_vectors(); `.jsonl` or `.json`, a JSON value a line: "text",
/// number, or {"token": text | "token_id": number | "tokens": [texts and numbers] | "token_ids":
/// [numbers] | "vector": [numbers], "name": text}; anything else a token's text a line. Empty lines
/// are passed over. Errors: FormatError E-QUERY naming the line, or for more than 64 MiB or four
/// million queries, E-JSON-*; UsageError E-QUERY (64) where it holds none.
QueryList read_queries(const std::string& path);

}  // namespace vindex::commands
