// What the arrays of an edit must look like, and their reading: headers first, numbers second.
#include "edit_arrays.hpp"

#include "npy_matrix.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace vindex::edit {
namespace {

/// The files, opened.
struct ArrayFiles {
  std::optional<NpyMatrix> direction, keys, values, covariance, probe;

  explicit ArrayFiles(const EditSettings& settings) {
    switch (settings.verb) {
      case EditVerb::kDelete:
        if (settings.direction.kind == DirectionChoice::Kind::kFile) {
          direction.emplace(settings.direction.file);
        }
        break;
      case EditVerb::kInsert:
        keys.emplace(settings.key);
        values.emplace(settings.value);
        break;
      case EditVerb::kMemit:
        keys.emplace(settings.keys);
        values.emplace(settings.values);
        break;
      case EditVerb::kApply:
        break;
    }
    if (!settings.covariance.empty()) {
      covariance.emplace(settings.covariance);
    }
    if (!settings.probe.empty()) {
      probe.emplace(settings.probe);
    }
  }

  std::vector<const NpyMatrix*> all() const {
    std::vector<const NpyMatrix*> found;
    for (const auto* file : {&direction, &keys, &values, &covariance, &probe}) {
      if (*file) {
        found.push_back(&**file);
      }
    }
    return found;
  }
};

void require_components(const model::MatrixRecord& matrix, const NpyMatrix& file, const char* what,
                        std::int64_t length, std::int64_t expected) {
  if (length != expected) {
    throw FormatError(
        "E-EDIT-SHAPE", file.name(),
        fmt::format("{} has {} components; {} is {} x {} (out x in), so {} are expected", what,
                    length, model::matrix_name(matrix), matrix.rows, matrix.cols, expected));
  }
}

void require_sides(const EditSettings& settings, const ArrayFiles& files,
                   const model::MatrixRecord& matrix) {
  if (files.direction) {
    require_length(matrix, settings, files.direction->length(), files.direction->name());
  }
  if (settings.verb == EditVerb::kInsert) {
    require_components(matrix, *files.keys, "the key", files.keys->length(), matrix.cols);
    require_components(matrix, *files.values, "the value", files.values->length(), matrix.rows);
  }
  if (settings.verb == EditVerb::kMemit) {
    require_components(matrix, *files.keys, "a key (a column)", files.keys->rows(), matrix.cols);
    require_components(matrix, *files.values, "a value (a column)", files.values->rows(),
                       matrix.rows);
    require_pairs(files.keys->cols(), files.values->cols());
  }
  if (files.covariance) {
    require_covariance_sides(files.covariance->rows(), files.covariance->cols(), matrix.cols,
                             files.covariance->name());
  }
  if (files.probe && files.probe->cols() != matrix.cols) {
    throw FormatError("E-EDIT-SHAPE", files.probe->name(),
                      fmt::format("is {} x {}; rows are inputs of {}, which have {} components",
                                  files.probe->rows(), files.probe->cols(),
                                  model::matrix_name(matrix), matrix.cols));
  }
}

}  // namespace

EditArrays read_arrays(const EditSettings& settings, const Records& targets,
                       std::uint64_t max_bytes) {
  const ArrayFiles files(settings);
  for (const model::MatrixRecord* matrix : targets) {
    require_sides(settings, files, *matrix);
  }
  for (const NpyMatrix* file : files.all()) {
    file->require_fits(max_bytes);
  }
  EditArrays arrays;
  if (files.direction) {
    arrays.direction = files.direction->read().values;
  }
  for (const auto& [file, into] :
       {std::pair{&files.keys, &arrays.keys}, std::pair{&files.values, &arrays.values},
        std::pair{&files.covariance, &arrays.covariance}, std::pair{&files.probe, &arrays.probe}}) {
    if (*file) {
      *into = (*file)->read();
    }
  }
  if (settings.verb == EditVerb::kInsert) {  // as columns
    for (Matrix* vector : {&*arrays.keys, &*arrays.values}) {
      vector->rows *= std::exchange(vector->cols, 1);
    }
  }
  return arrays;
}

}  // namespace vindex::edit
