// Owns reading those tensors: every so-manyth value of a vector, every scale of a block.
#include "tensor_samples.hpp"

#include "decoded_scales.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/source_watch.hpp"
#include "statistics/spectrum/sample_angles.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vindex::commands {

namespace {

constexpr std::int64_t kSampleSlab = 1 << 20;

/// Every so-manyth value, and `scales` gets all of them.
std::vector<float> read_sample(MatrixInput& input, SlabScales& scales) {
  const std::int64_t rows = input.rows();
  const std::int64_t cols = input.cols();
  std::vector<float> sample(static_cast<std::size_t>(statistics::sample_size(rows * cols)));
  const std::int64_t stride = statistics::sample_stride(rows * cols);
  // A 1-D tensor is one row: it is cut by columns, at blocks.
  const std::int64_t unit = decode::column_granularity(input.encoding());
  const std::int64_t step = std::max<std::int64_t>(unit, kSampleSlab / rows / unit * unit);
  for (std::int64_t first = 0; first < cols; first += step) {
    const decode::EncodedMatrix slab = input.column_slab(first, std::min(step, cols - first));
    decode::decode_strided(slab, cols, stride, sample);
    scales.add(slab);
  }
  return sample;
}

/// Why a sample has no angles.
std::string missing_text(const statistics::SampleAngles& angles) {
  if (angles.is_constant) {
    return "constant: theta_seed is 0, no theta_qq";
  }
  if (angles.count < statistics::kMinSampled) {
    return "fewer than 4 values";
  }
  return std::isnan(angles.theta_seed) ? "holds values that are not finite" : "";
}

void sample_vector(engine::SourceWatch& watch, const model::TensorRecord& tensor, bool with_signs,
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
    const auto input = engine::make_streamed_input(watch, record);
    SlabScales scales(input->rows(), input->cols(),
                      with_signs ? std::optional(input->sign_flip_key()) : std::nullopt);
    std::vector<float> sample = read_sample(*input, scales);
    out.scales = scales.figures();
    out.scales_missing = scales.is_finite() ? statistics::missing_scales(tensor.count, out.scales)
                                            : "holds values that are not finite";
    out.angles = statistics::sample_angles(sample, true);
    out.missing = missing_text(out.angles);
  } catch (const Error& error) {
    out.missing = error.what();
  }
}

/// Adds the scales of `matrix` to those of its tensor. Scales of a type that is not decoded count
/// for nothing.
void add_block_scales(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                      decode::Moments& moments) {
  for (const model::CompanionPart& companion : matrix.companions) {
    const decode::Encoding encoding = decode::plain_encoding(companion.type);
    const std::int64_t count = companion.part.rows * companion.part.cols;
    if (companion.role != decode::CompanionRole::kScale || count <= 0 ||
        !decode::is_decodable(encoding)) {
      continue;
    }
    const input::StoredTensor& stored =
        watch.files().tensors[static_cast<std::size_t>(companion.part.tensor)];
    std::vector<std::byte> bytes(companion.part.bytes);
    watch.files().shards[static_cast<std::size_t>(stored.shard)].source->read(companion.part.offset,
                                                                              bytes);
    watch.was_read(companion.part.tensor);
    std::vector<float> values(static_cast<std::size_t>(count));
    decode::decode_row(encoding, bytes, values);
    moments = decode::merge(moments, decode::moments_of(values.data(), 1, count, count));
  }
}

}  // namespace

void add_samples(const std::function<std::string(std::string_view name)>& class_of, bool with_signs,
                 const engine::SelectedModel& model, results::RunDescription& description) {
  description.sampled = true;
  engine::SourceWatch watch(model.files);
  for (const model::TensorRecord& tensor : model.index.tensors) {
    results::TensorSample& sample = description.tensor_samples.emplace_back();
    sample.organ_class = class_of(tensor.name);
    if (!tensor.in_matrix && tensor.shape.size() == 1 && tensor.count > 0) {
      sample_vector(watch, tensor, with_signs, sample);
    }
  }
  watch.require_unchanged();
}

Json sample_json() {
  return {{"most", statistics::kMaxSampled},
          {"bins", statistics::kSeedBins},
          {"entropy_weight", statistics::kEntropyWeight},
          {"kurtosis_weight", statistics::kKurtosisWeight},
          {"spacing_weight", statistics::kSpacingWeight}};
}

void add_block_scales(const engine::SelectedModel& model, results::RunDescription& description) {
  engine::SourceWatch watch(model.files);
  std::unordered_map<std::string_view, decode::Moments> of_tensor;
  for (const std::int64_t selected : model.selected) {
    const model::MatrixRecord& matrix = model.index.matrices[static_cast<std::size_t>(selected)];
    if (matrix.table == model::ResultTable::kMatrix &&
        matrix.encoding.scheme == decode::Scheme::kFp8Block && matrix.unsupported.empty()) {
      add_block_scales(watch, matrix, of_tensor[matrix.tensor]);
    }
  }
  watch.require_unchanged();
  for (std::size_t i = 0; i < model.index.tensors.size(); ++i) {
    const auto found = of_tensor.find(model.index.tensors[i].name);
    if (found != of_tensor.end() && found->second.count > 0) {
      const decode::Moments& moments = found->second;
      description.tensor_samples[i].block_scales = {
          moments.count, moments.mean, decode::standard_deviation(moments) / moments.mean};
    }
  }
}

}  // namespace vindex::commands
