// Owns the files of a run while a view is made of them: every row, the file that describes the run,
// and what each view says of its file.
#pragma once

#include "view_head.hpp"

#include "results/parts/parts_folder.hpp"
#include "results/reading/gathered_rows.hpp"
#include "results/runs/gather_run.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// The files of a run while a view is made of them.
class ViewSource {
 public:
  /// Errors: MissingInputError where there is nothing at `path`; others as gather_run().
  ViewSource(std::string path, std::optional<FileSchema> wanted);
  FileSchema schema() const { return schema_; }
  /// Of all tables, in the file's order; `/matrix/` first.
  const std::vector<const StoredRow*>& rows() const { return rows_; }
  SourcePool& pool() { return gathered_.pool(); }
  /// The file that says most of the run.
  ResultsReader& reader();
  /// Sets everything of `head`; `rows`: those of the table that is shown.
  void describe(ViewHead& head, const std::vector<const StoredRow*>& rows);

 private:
  std::string path_;
  RunFiles run_;
  GatheredRows gathered_;
  FileSchema schema_;
  std::vector<const StoredRow*> rows_;
};

/// What make(source) returns of the state of a run at `path`: the published file, its parts, or
/// both. Made anew where the run was published meanwhile.
template <typename Make>
auto make_view(const std::string& path, std::optional<FileSchema> wanted, const Make& make) {
  return read_while_it_stays(path, [&] {
    ViewSource source(path, wanted);
    return make(source);
  });
}

}  // namespace vindex::results
