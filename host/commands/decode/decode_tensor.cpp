// Owns finding a logical tensor by its name and writing its weights, refusing to overwrite an
// input.
#include "decode_tensor.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/output_sink.hpp"
#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "core/text/nearest_name.hpp"
#include "decode/decode_matrix.hpp"
#include "engine/units/matrix_loader.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace vindex::commands {

static_assert(std::endian::native == std::endian::little,
              "values are written as they lie in memory");

namespace {

constexpr std::int64_t kDecodedSlab = 4 << 20;  ///< 16 MiB of float32
constexpr OutputErrorIds kOutputErrors = {"E-OUTPUT", "E-WRITE", "E-WRITE", "E-WRITE"};

/// The target is replaced when all is written: it may be no file of the model.
void refuse_input_as_output(const input::ModelFiles& files, const std::string& output) {
  std::vector<std::string> inputs = files.side_files;
  for (const input::Shard& shard : files.shards) {
    inputs.push_back(shard.path);
  }
  for (const std::string& input : inputs) {
    if (is_same_file(input, output)) {
      throw OutputError("E-OUTPUT", fmt::format("{}: a file of the model that is read; it is not "
                                                "replaced, choose another name",
                                                printable(output)));
    }
  }
}

}  // namespace

void decode_slabs(engine::SourceWatch& watch, const model::MatrixRecord& record,
                  const std::function<void(std::span<const float>)>& use) {
  const std::int64_t rows = record.stored_rows();
  const std::int64_t cols = record.stored_cols();
  if (rows == 0 || cols == 0) {
    return;
  }
  const auto input = engine::make_streamed_input(watch, record);
  // Whole blocks of rows: a scale's rows may cover several.
  const std::int64_t unit = std::max<std::int64_t>(1, record.encoding.block_rows);
  const std::int64_t step = std::max<std::int64_t>(unit, kDecodedSlab / cols / unit * unit);
  std::vector<float> values;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    values.resize(static_cast<std::size_t>(count * cols));
    decode::decode_matrix(input->row_slab(first, count), values.data(), cols);
    use(values);
  }
}

DecodeOutcome decode_tensor(const std::string& path, const std::string& model_config,
                            const std::string& name, std::optional<std::int32_t> slice,
                            const std::string& output, bool replace) {
  const input::ModelFiles files = input::open_model(path, {.model_config = model_config});
  if (output != "-") {
    refuse_input_as_output(files, output);
    require_free_target(output, replace);
  }
  // Tied or not, a tensor is decoded as it is stored.
  const model::ModelIndex index = model::index_model(files, {.tied = model::TiedOutput::kKeep});
  const auto tensor =
      std::find_if(index.tensors.begin(), index.tensors.end(),
                   [&](const model::TensorRecord& record) { return record.name == name; });
  if (tensor == index.tensors.end()) {
    std::vector<std::string> names;
    for (const model::TensorRecord& record : index.tensors) {
      names.push_back(record.name);
    }
    const std::string guess = did_you_mean(name, names);
    throw UsageError(
        "E-TENSOR",
        fmt::format("{}: no tensor `{}`; {}", printable(path), excerpt(name),
                    guess.empty() ? "`vindex inspect --tensors` lists the names" : guess.c_str()));
  }
  const auto tensor_record = static_cast<std::int32_t>(tensor - index.tensors.begin());
  std::vector<model::MatrixRecord> parts;
  for (const model::MatrixRecord& matrix : index.matrices) {
    if (matrix.tensor_record == tensor_record) {
      parts.push_back(matrix);
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.slice < b.slice; });
  if (parts.empty() && tensor->stored.size() > 1) {
    // Its codes alone are not its weights.
    throw FormatError("E-UNSUPPORTED", printable(name),
                      fmt::format("no weight matrix: {}, encoding {}", printable(tensor->reason),
                                  tensor->encoding));
  }
  if (parts.empty()) {
    parts.push_back(engine::plain_record(files, *tensor));
  }
  if (slice) {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& part) { return part.slice == *slice; });
    if (found == parts.end() || *slice < 0) {
      throw UsageError(
          "E-SLICE",
          fmt::format("{}: no slice {}; {}", excerpt(name), *slice,
                      parts.front().slice < 0
                          ? std::string("it is one matrix, leave --slice out")
                          : fmt::format("it has {}-{}", parts.front().slice, parts.back().slice)));
    }
    parts = {*found};
  }
  for (const model::MatrixRecord& part : parts) {
    if (const std::string reason = model::undecodable_text(part); !reason.empty()) {
      throw FormatError("E-UNSUPPORTED", printable(name), reason);
    }
  }
  OutputSink out(output, kOutputErrors);
  DecodeOutcome outcome;
  engine::SourceWatch watch(files);
  for (const model::MatrixRecord& part : parts) {
    decode_slabs(watch, part, [&](std::span<const float> values) {
      out.write(std::as_bytes(values));
      outcome.values += static_cast<std::int64_t>(values.size());
    });
  }
  watch.require_unchanged();
  out.commit();
  outcome.warnings = files.warnings;
  return outcome;
}

}  // namespace vindex::commands
