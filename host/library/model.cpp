// Owns opening a model and decoding its matrices.
#include "access.hpp"

#include "commands/decode/decode_tensor.hpp"
#include "core/process/stop.hpp"
#include "engine/run/version.hpp"
#include "input/remote/remote_environment.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace vindex {
namespace {

Matrix matrix_of(const model::MatrixRecord& record) {
  return {.tensor = record.tensor,
          .layer = record.layer,
          .block = std::string(model::block_name(record.block)),
          .role = record.role,
          .expert = record.expert,
          .slice = record.slice,
          .rows = record.rows,
          .cols = record.cols,
          .encoding = record.encoding.label,
          .unsupported = record.unsupported,
          .transposed = record.transposed};
}

const model::MatrixRecord& record_of(const v0::Model& model, const v0::Matrix& matrix) {
  const std::vector<model::MatrixRecord>& all = ModelAccess::state(model).model.index.matrices;
  // Mostly it is one of the model's own: nothing is looked for among a hundred thousand.
  const std::span<const Matrix> own = model.matrices();
  if (const std::less<> before;
      !before(&matrix, own.data()) && before(&matrix, own.data() + own.size())) {
    return all[static_cast<std::size_t>(&matrix - own.data())];
  }
  const auto is_tensor = [&](const auto& record) { return record.tensor == matrix.tensor; };
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& record) {
    return is_tensor(record) && record.slice == matrix.slice;
  });
  if (found != all.end()) {
    return *found;
  }
  if (std::none_of(all.begin(), all.end(), is_tensor)) {
    throw UsageError("E-TENSOR", fmt::format("{}: no weight matrix `{}`",
                                             printable(model.address()), excerpt(matrix.tensor)));
  }
  throw UsageError("E-SLICE", fmt::format("{}: no slice {}", excerpt(matrix.tensor), matrix.slice));
}

}  // namespace

void library::throw_stopped(const char* what) {
  throw Error(ExitCode::kStoppedEarly, "E-STOPPED",
              fmt::format("{} was stopped before its end", what));
}

const std::string& v0::Model::address() const { return state_->address; }
std::span<const v0::Matrix> v0::Model::matrices() const { return state_->matrices; }
const std::vector<std::string>& v0::Model::warnings() const { return state_->warnings; }

v0::Model v0::open(std::string_view address) { return open(address, {}); }

v0::Model v0::open(std::string_view address, std::stop_token stop) {
  auto state = std::make_shared<Model::State>();
  state->address = address;
  state->stop = std::move(stop);
  try {
    state->model = engine::open_whole(state->address, "", 0, state->stop);
  } catch (const Stopped&) {
    library::throw_stopped("opening the model");
  }
  for (const model::MatrixRecord& record : state->model.index.matrices) {
    state->matrices.push_back(matrix_of(record));
  }
  for (const auto* warnings : {&state->model.files.warnings, &state->model.index.warnings}) {
    for (const Warning& warning : *warnings) {
      state->warnings.push_back(fmt::format("{}: {}", warning.id, warning.text));
    }
  }
  Model model;
  model.state_ = std::move(state);
  return model;
}

std::vector<float> v0::Model::decode(const Matrix& matrix) const {
  const model::MatrixRecord& record = record_of(*this, matrix);
  if (const std::string reason = model::undecodable_text(record); !reason.empty()) {
    throw FormatError("E-UNSUPPORTED", printable(matrix.tensor), reason);
  }
  const std::int64_t rows = record.stored_rows();
  const std::int64_t cols = record.stored_cols();
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  if (!values.empty()) {
    engine::SourceWatch watch(state_->model.files);
    std::size_t filled = 0;
    try {
      commands::decode_slabs(watch, record, [&](std::span<const float> slab) {
        throw_if_stopped(state_->stop);
        std::copy(slab.begin(), slab.end(), values.begin() + static_cast<std::ptrdiff_t>(filled));
        filled += slab.size();
      });
      watch.require_unchanged();
    } catch (const Stopped&) {
      library::throw_stopped("decoding");
    }
  }
  return values;
}

std::string v0::version() { return engine::program_version(); }

void v0::set_environment(std::function<std::string(const char* name)> variable) {
  input::set_remote_environment(std::move(variable));
}

}  // namespace vindex
