// Owns finding matrices by name, parsing directions, and computing them.
#include "targets.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/units/matrix_loader.hpp"
#include "model/selection/selection.hpp"
#include "model/transformer/features.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vindex::edit {
namespace {

std::string slices_text(const Records& slices) {
  return fmt::format("it is a stack of {} matrices ({}-{})", slices.size(), slices.front()->slice,
                     slices.back()->slice);
}

Side side_of(const EditSettings& settings) { return settings.side.value_or(Side::kRight); }

/// "no weight matrix `x`", with a guess.
std::string no_tensor_text(const model::ModelIndex& index, const std::string& name) {
  std::set<std::string> names;
  bool is_vector = false;
  for (const model::MatrixRecord& matrix : index.matrices) {
    names.insert(matrix.tensor);
  }
  for (const model::TensorRecord& tensor : index.tensors) {
    is_vector = is_vector || tensor.name == name;
  }
  const std::vector<std::string> list(names.begin(), names.end());
  const std::string guess = did_you_mean(name, list);
  return fmt::format("no weight matrix `{}`{}; {}", excerpt(name),
                     is_vector ? " (the tensor of this name is not a matrix)" : "",
                     guess.empty() ? "`vindex inspect --tensors` lists the names" : guess);
}

Records matrices_called(const model::ModelIndex& index, const std::string& name) {
  Records found;
  for (const model::MatrixRecord& matrix : index.matrices) {
    if (matrix.table == model::ResultTable::kMatrix && matrix.tensor == name) {
      found.push_back(&matrix);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto* a, const auto* b) { return a->slice < b->slice; });
  return found;
}

ChosenDirection feature_direction(engine::SourceWatch& watch, const model::ModelIndex& index,
                                  const model::MatrixRecord& matrix, const EditSettings& settings) {
  model::Selection same;
  same.layers = {{matrix.layer, matrix.layer}};
  same.blocks = {matrix.block};
  const std::int64_t feature = settings.direction.number;
  for (const model::FeatureMatrix& features :
       model::feature_matrices(watch.files(), index, same, model::FeatureRole::kGate)) {
    const model::MatrixRecord& gate = index.matrices[static_cast<std::size_t>(features.matrix)];
    if (gate.expert != matrix.expert) {
      continue;
    }
    if (feature >= features.rows.count) {
      throw UsageError("E-EDIT-FEATURE", fmt::format("feature {}: {} has {} (0-{})", feature,
                                                     model::matrix_name(gate), features.rows.count,
                                                     features.rows.count - 1));
    }
    const std::string text = fmt::format("feature {} of {}", feature, model::matrix_name(gate));
    const std::vector<double> row = weights_row(watch, gate, features.rows.row(feature));
    return {{side_of(settings), unit_vector(row, text)}, text};
  }
  throw UsageError("E-EDIT-FEATURE",
                   fmt::format("a feature is a row of gate_proj, and {} has none beside it; give "
                               "the direction as a .npy",
                               model::matrix_name(matrix)));
}

ChosenDirection singular_direction(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                                   const EditSettings& settings, Backend& backend) {
  const std::int64_t number = settings.direction.number;
  const std::int64_t count = std::min(matrix.rows, matrix.cols);
  if (number >= count) {
    throw UsageError("E-EDIT-DIRECTION",
                     fmt::format("singular {}: {} has {} singular values (0-{})", number,
                                 model::matrix_name(matrix), count, count - 1));
  }
  MeasureOptions options;
  options.vectors = static_cast<std::int32_t>(number + 1);
  options.stop = settings.stop;
  const std::uint64_t needed =
      backend.workspace_bytes(matrix.encoding, matrix.stored_rows(), matrix.stored_cols(), options,
                              InputBytes::kStreamedLeast);
  if (settings.ram_budget != 0) {
    engine::require_budget(settings.ram_budget,
                           "a singular vector of " + model::matrix_name(matrix), needed);
  }
  const auto input = engine::make_streamed_input(watch, matrix);
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  backend.measure(batch, options, settings.ram_budget, std::span(&report, 1));
  if (report.status != MatrixStatus::kMeasured || !report.vectors ||
      report.vectors->count <= number) {
    throw FormatError("E-EDIT-DIRECTION", model::matrix_name(matrix),
                      fmt::format("singular {}: {}", number,
                                  report.reason.empty() ? "the value is zero" : report.reason));
  }
  const bool right = side_of(settings) == Side::kRight;
  const std::vector<float>& vectors = right ? report.vectors->right : report.vectors->left;
  const auto length = static_cast<std::size_t>(right ? matrix.cols : matrix.rows);
  const auto k = static_cast<std::size_t>(number);
  const std::vector<double> vector(vectors.begin() + static_cast<std::ptrdiff_t>(k * length),
                                   vectors.begin() + static_cast<std::ptrdiff_t>((k + 1) * length));
  return {{side_of(settings), unit_vector(vector, model::matrix_name(matrix))},
          fmt::format("singular {}, s = {:.6g}, next value {:.2g} away", number,
                      report.vectors->sigma[k], report.vectors->gap[k])};
}

}  // namespace

DirectionChoice parse_direction(const std::string& text) {
  DirectionChoice choice;
  for (const auto& [word, kind] : {std::pair{"feature ", DirectionChoice::Kind::kFeature},
                                   std::pair{"singular ", DirectionChoice::Kind::kSingular}}) {
    if (text.starts_with(word) || text + " " == word) {
      choice.number =
          whole_number<std::int64_t>(text.substr(std::min(text.size(), std::string(word).size())))
              .value_or(-1);
      if (choice.number < 0 || choice.number > 1 << 30) {
        throw UsageError(
            "E-EDIT-DIRECTION",
            fmt::format("--direction {}: a number from 0 on follows `{}`", excerpt(text),
                        std::string_view(word, std::string(word).size() - 1)));
      }
      choice.kind = kind;
      return choice;
    }
  }
  choice.file = text;
  return choice;
}

Records find_targets(const model::ModelIndex& index, const EditSettings& settings) {
  if (!settings.tensors.empty()) {
    const model::Selection selection =
        model::parse_selection(settings.layers, "", "", settings.tensors);
    Records found;
    for (const std::int64_t row : model::select(index, selection)) {
      const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(row)];
      if (matrix.table == model::ResultTable::kMatrix) {
        found.push_back(&matrix);
      }
    }
    if (found.empty()) {
      throw UsageError("E-SELECTION", model::empty_selection_text(index, selection));
    }
    return found;
  }
  Records found = matrices_called(index, settings.tensor);
  if (found.empty()) {
    throw UsageError("E-TENSOR", no_tensor_text(index, settings.tensor));
  }
  const bool is_stack = found.front()->slice >= 0;
  if (!is_stack && (settings.slice || settings.every_slice)) {
    throw UsageError("E-SLICE", excerpt(settings.tensor) + ": it is one matrix, leave --slice out");
  }
  if (is_stack && !settings.slice && !settings.every_slice) {
    throw UsageError("E-SLICE", fmt::format("{}: {}; name one with --slice I, or --slice all",
                                            excerpt(settings.tensor), slices_text(found)));
  }
  if (settings.slice) {
    const auto slice = std::find_if(found.begin(), found.end(), [&](const auto* matrix) {
      return matrix->slice == *settings.slice;
    });
    if (slice == found.end()) {
      throw UsageError("E-SLICE", fmt::format("{}: no slice {}; {}", excerpt(settings.tensor),
                                              *settings.slice, slices_text(found)));
    }
    return {*slice};
  }
  return found;
}

const model::MatrixRecord& target_of(const model::ModelIndex& index, const PatchEntry& entry,
                                     const std::string& patch) {
  Records found;
  for (const bool exact : {true, false}) {
    for (const model::MatrixRecord& matrix : index.matrices) {
      if (matrix.table == model::ResultTable::kMatrix && matrix.slice == entry.slice &&
          (exact ? matrix.tensor == entry.tensor
                 : matrix.tensor.ends_with("." + entry.tensor) ||
                       entry.tensor.ends_with("." + matrix.tensor))) {
        found.push_back(&matrix);
      }
    }
    if (!found.empty()) {
      break;
    }
  }
  if (found.size() != 1) {
    const Records others = matrices_called(index, entry.tensor);
    if (!others.empty()) {
      throw FormatError(
          "E-PATCH-TENSOR", patch,
          fmt::format("edits {}, but in the model {}", excerpt(entry.key()),
                      others.front()->slice < 0 ? "it is one matrix" : slices_text(others)));
    }
    throw FormatError("E-PATCH-TENSOR", patch,
                      found.empty() ? "is of another model: " + no_tensor_text(index, entry.tensor)
                                    : fmt::format("more than one weight matrix is called `{}`",
                                                  excerpt(entry.tensor)));
  }
  const model::MatrixRecord& matrix = *found.front();
  if (matrix.rows != entry.edit.rows || matrix.cols != entry.edit.cols) {
    throw ConfigurationError(
        "E-PATCH-SHAPE", fmt::format("{}: the patch is of {} x {} weights, the model has {} x {}: "
                                     "it is a patch of another model",
                                     model::matrix_name(matrix), entry.edit.rows, entry.edit.cols,
                                     matrix.rows, matrix.cols));
  }
  return matrix;
}

void require_side(const Records& targets, const EditSettings& settings) {
  if (settings.side || settings.direction.kind == DirectionChoice::Kind::kSingular) {
    return;
  }
  for (const model::MatrixRecord* matrix : targets) {
    if (matrix->rows == matrix->cols) {
      throw UsageError(
          "E-EDIT-SIDE",
          fmt::format("{} is {} x {}: a direction fits both sides. --side left takes it out of "
                      "what the matrix writes (outputs: W - alpha u u^T W; the residual stream of "
                      "o_proj and down_proj), --side right out of what it reads (inputs: W - alpha "
                      "W v v^T; the residual stream of q_proj, gate_proj and up_proj)",
                      model::matrix_name(*matrix), matrix->rows, matrix->cols));
    }
  }
}

std::int64_t stack_size(const model::ModelIndex& index, const model::MatrixRecord& matrix) {
  return matrix.slice < 0 ? -1
                          : static_cast<std::int64_t>(matrices_called(index, matrix.tensor).size());
}

void require_length(const model::MatrixRecord& matrix, const EditSettings& settings,
                    std::int64_t length, const std::string& text) {
  const bool right = side_of(settings) == Side::kRight;
  if (length != (right ? matrix.cols : matrix.rows)) {
    const bool other = length == (right ? matrix.rows : matrix.cols);
    throw FormatError(
        "E-EDIT-SHAPE", text,
        fmt::format("has {} components; {} is {} x {} (out x in) and its {} side has {}{}", length,
                    model::matrix_name(matrix), matrix.rows, matrix.cols, right ? "right" : "left",
                    right ? matrix.cols : matrix.rows,
                    other ? fmt::format("; --side {} fits", right ? "left" : "right") : ""));
  }
}

ChosenDirection choose_direction(engine::SourceWatch& watch, const model::ModelIndex& index,
                                 const model::MatrixRecord& matrix, const EditSettings& settings,
                                 const std::vector<double>* file, Backend* backend) {
  ChosenDirection chosen;
  if (settings.direction.kind == DirectionChoice::Kind::kFeature) {
    chosen = feature_direction(watch, index, matrix, settings);
  } else if (settings.direction.kind == DirectionChoice::Kind::kSingular) {
    chosen = singular_direction(watch, matrix, settings, *backend);
  } else {
    chosen = {{side_of(settings), unit_vector(*file, printable(settings.direction.file))},
              printable(settings.direction.file)};
  }
  require_length(matrix, settings, static_cast<std::int64_t>(chosen.direction.unit.size()),
                 chosen.text);
  return chosen;
}

}  // namespace vindex::edit
