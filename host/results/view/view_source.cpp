// Owns which file of a run describes it, and what a view takes from there.
#include "view_source.hpp"

#include "core/text/secrets.hpp"

#include <utility>

namespace vindex::results {

ViewSource::ViewSource(std::string path, std::optional<FileSchema> wanted)
    : path_(std::move(path)),
      run_(list_run(path_)),
      schema_(gather_run(path_, run_, gathered_, wanted)),
      rows_(gathered_.sorted()) {}

ResultsReader& ViewSource::reader() {
  // Earlier files of the run come first, the published one behind them.
  return pool().reader(run_.has_file ? static_cast<std::int32_t>(run_.files.runs.size()) : 0);
}

void ViewSource::describe(ViewHead& head, const std::vector<const StoredRow*>& rows) {
  const h5::File& file = reader().file();
  const StatusCounts counts = count_statuses(rows);
  head = {.schema = schema_,
          .path = path_,
          .model = without_secrets(file.text_attribute("/", "model")),
          .backend = file.text_attribute("/", "backend"),
          .other_model = file.has_attribute("/", "model_b")
                             ? without_secrets(file.text_attribute("/", "model_b"))
                             : std::string(),
          .state = state_of(run_, rows_),
          .rows_total = counts.total,
          .rows_measured = counts.measured};
}

}  // namespace vindex::results
