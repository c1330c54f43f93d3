// Owns the checks of the arrays of an edit, and their reading: headers first, numbers second.
#include "edit_arrays.hpp"

#include "matrix_edit.hpp"

#include "engine/plan/memory_budget.hpp"
#include "input/npy/npy.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace vindex::edit {

namespace {

/// A .npy of one or two dimensions of which no more than the header is read; one dimension is a
/// column.
class NpyMatrix {
 public:
  /// Errors: those of open_input() and read_npy_header(); FormatError E-EDIT-SHAPE for other ranks
  /// and empty arrays, E-NPY-DTYPE for booleans.
  explicit NpyMatrix(const std::string& address)
      : source_(input::open_input(address)), header_(input::read_npy_header(*source_)) {
    source_->header_is_read();
    const std::vector<std::int64_t>& shape = header_.shape;
    if (shape.empty() || shape.size() > 2 || header_.bytes == 0) {
      throw FormatError(
          "E-EDIT-SHAPE", name(),
          fmt::format("has {} dimensions of {} bytes; a vector or a matrix is expected",
                      shape.size(), header_.bytes));
    }
    input::require_npy_numbers(*source_, header_);
    rows_ = shape[0];
    cols_ = shape.size() == 2 ? shape[1] : 1;
  }

  const std::string& name() const { return source_->name(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  /// How many numbers a vector has: one dimension, or 1 x n, or n x 1. Errors: FormatError
  /// E-EDIT-SHAPE for a matrix.
  std::int64_t length() const {
    if (rows_ != 1 && cols_ != 1) {
      throw FormatError(
          "E-EDIT-SHAPE", name(),
          fmt::format("is {} x {}; a vector is expected: one dimension, or 1 x n, or n x "
                      "1",
                      rows_, cols_));
    }
    return rows_ * cols_;
  }

  /// Errors: ConfigurationError E-BUDGET (78) where its numbers take more than `max_bytes`.
  void require_fits(std::uint64_t max_bytes) const {
    constexpr std::uint64_t kOfNumber = 16;  // as read and as double
    const auto count = static_cast<std::uint64_t>(rows_) * static_cast<std::uint64_t>(cols_);
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / kOfNumber;
    engine::require_budget(max_bytes, name(), kOfNumber * std::min(count, kMost));
  }

  /// The numbers. Errors: those of ByteSource::read().
  Matrix read() const {
    Matrix matrix{rows_, cols_, {}};
    if (header_.type == decode::ElementType::kF64) {
      matrix.values.resize(static_cast<std::size_t>(rows_ * cols_));
      source_->read(header_.offset, std::as_writable_bytes(std::span(matrix.values)));
      return matrix;
    }
    const std::vector<float> values = input::read_npy_floats(*source_, header_);
    matrix.values.assign(values.begin(), values.end());
    return matrix;
  }

 private:
  std::unique_ptr<ByteSource> source_;
  input::NpyHeader header_;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
};

/// The files, opened.
struct ArrayFiles {
  std::optional<NpyMatrix> direction, keys, values, covariance, probe;

  explicit ArrayFiles(const EditSettings& settings) {
    switch (settings.kind) {
      case EditKind::kDelete:
        if (settings.direction.kind == DirectionChoice::Kind::kFile) {
          direction.emplace(settings.direction.file);
        }
        break;
      case EditKind::kInsert:
        keys.emplace(settings.key);
        values.emplace(settings.value);
        break;
      case EditKind::kMemit:
        keys.emplace(settings.keys);
        values.emplace(settings.values);
        break;
      case EditKind::kApply:
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
  if (settings.kind == EditKind::kInsert) {
    require_components(matrix, *files.keys, "the key", files.keys->length(), matrix.cols);
    require_components(matrix, *files.values, "the value", files.values->length(), matrix.rows);
  }
  if (settings.kind == EditKind::kMemit) {
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
  if (settings.kind == EditKind::kInsert) {  // as columns
    for (Matrix* vector : {&*arrays.keys, &*arrays.values}) {
      vector->rows *= std::exchange(vector->cols, 1);
    }
  }
  return arrays;
}

}  // namespace vindex::edit
