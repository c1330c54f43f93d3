// Owns reading 1-D tensors and the angles of their values.
#include "vector_samples.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/json.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/engine/description_parts.hpp>
#include <vindex/engine/matrix_loader.hpp>
#include <vindex/engine/source_watch.hpp>
#include <vindex/measure/sample_angles.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::jobs {

namespace {

constexpr std::int64_t kSampleSlab = 1 << 20;

std::vector<float> read_sample(engine::SourceWatch& watch, const model::MatrixRecord& record) {
  const std::int64_t rows = record.stored_rows();
  const std::int64_t cols = record.stored_cols();
  std::vector<float> sample(static_cast<std::size_t>(measure::sample_size(rows * cols)));
  const std::int64_t stride = measure::sample_stride(rows * cols);
  const auto input = engine::make_streamed_input(watch, record);
  // A 1-D tensor is one row: it is cut by columns, at blocks.
  const std::int64_t unit = decode::column_granularity(record.encoding);
  const std::int64_t step = std::max<std::int64_t>(unit, kSampleSlab / rows / unit * unit);
  for (std::int64_t first = 0; first < cols; first += step) {
    decode::decode_strided(input->column_slab(first, std::min(step, cols - first)), cols, stride,
                           sample);
  }
  return sample;
}

/// Why a sample has no angles.
std::string missing_text(const measure::SampleAngles& angles) {
  if (angles.is_constant) {
    return "constant: theta_seed is 0, no theta_qq";
  }
  if (angles.count < measure::kMinSampled) {
    return "fewer than 4 values";
  }
  return std::isnan(angles.theta_seed) ? "holds values that are not finite" : "";
}

void sample_vector(engine::SourceWatch& watch, const model::TensorRecord& tensor,
                   results::TensorSample& out) {
  if (tensor.stored.size() != 1) {
    out.missing = "stored in several parts";
    return;
  }
  const model::MatrixRecord record = engine::plain_record(watch.files(), tensor);
  if (!decode::is_decodable(record.encoding)) {
    out.missing = "encoding " + record.encoding.label + " cannot be decoded";
    return;
  }
  try {
    std::vector<float> sample = read_sample(watch, record);
    out.angles = measure::sample_angles(sample, true);
    out.missing = missing_text(out.angles);
  } catch (const Error& error) {
    out.missing = error.what();
  }
}

}  // namespace

void add_samples(const engine::RunSettings& settings, const engine::SelectedModel& model,
                 results::RunDescription& description) {
  description.sampled = true;
  engine::SourceWatch watch(model.files);
  for (const model::TensorRecord& tensor : model.index.tensors) {
    results::TensorSample& sample = description.tensor_samples.emplace_back();
    sample.organ_class = settings.class_of(tensor.name);
    if (!tensor.in_matrix && tensor.shape.size() == 1 && tensor.count > 0) {
      sample_vector(watch, tensor, sample);
    }
  }
  watch.require_unchanged();
  Json document = Json::of(parse_json(description.settings_json, "the settings", {}));
  document["sample"] = {{"most", measure::kMaxSampled},
                        {"bins", measure::kSeedBins},
                        {"entropy_weight", measure::kEntropyWeight},
                        {"kurtosis_weight", measure::kKurtosisWeight},
                        {"spacing_weight", measure::kSpacingWeight}};
  description.settings_json = document.dump(1);
}

}  // namespace vindex::jobs
