// Owns which matrices of a model are purified, in units over workers, and what was left alone and
// why.
#include "purify/purify_matrix.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/core/parallel.hpp>
#include <vindex/core/stop.hpp>
#include <vindex/decode/encode.hpp>
#include <vindex/model/selection.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>

namespace vindex::organ {
namespace {

std::uint64_t matrix_count(const OrganTensor& tensor) {
  return std::accumulate(tensor.dimensions.begin() + 2, tensor.dimensions.end(), std::uint64_t{1},
                         std::multiplies<>());
}

/// Why none of the tensor's matrices is tried; empty: they are. What the header says is enough.
std::string why_skipped(const OrganTensor& tensor, OrganClass organ_class,
                        const PurifyOptions& options) {
  if (!options.classes.contains(organ_class)) {
    return fmt::format("{}: not asked for (--include)", class_name(organ_class));
  }
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto& sides = tensor.dimensions;
  if (sides.size() < 2 || sides[0] < 2 || sides[1] < 2) {
    return "one dimension";
  }
  if (tensor.bytes == 0) {
    return "no weights";
  }
  if (sides[0] > kMax || sides[1] > kMax) {
    return "more than 2^31 - 1 rows or columns";
  }
  if (!decode::is_decodable(decode::plain_encoding(tensor.type))) {
    return fmt::format("no decoder for {}", decode::element_type_name(tensor.type));
  }
  if (!options.encode) {
    return {};
  }
  const decode::Encoding encoding = decode::plain_encoding(options.out_type.value_or(tensor.type));
  if (!decode::is_encodable(encoding)) {
    return fmt::format("no encoder for {}: --out-type F16, BF16, Q8_0 or Q4_0 stores it",
                       decode::element_type_name(encoding.type));
  }
  const auto cols = static_cast<std::int64_t>(sides[0]);
  if (!decode::encoded_size(encoding, static_cast<std::int64_t>(sides[1]), cols)) {
    return fmt::format("rows of {} weights fill no blocks of {}", cols,
                       decode::element_type_name(encoding.type));
  }
  return {};
}

bool is_selected(const std::string& name, std::int32_t block, const model::Selection& selection) {
  const bool layer =
      selection.layers.empty() ||
      std::any_of(selection.layers.begin(), selection.layers.end(), [block](const auto& range) {
        return block >= range.first && block <= range.second;
      });
  return layer && (selection.tensors == nullptr || model::name_matches(*selection.tensors, name));
}

std::vector<PurifiedTensor> plan(const GgufSource& source, const PurifyOptions& options) {
  std::vector<PurifiedTensor> out;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const OrganTensor& tensor = source.tensors()[i];
    const OrganName name = classify(tensor.name);
    if (!is_selected(tensor.name, name.block, options.selection)) {
      continue;
    }
    PurifiedTensor entry;
    entry.tensor = i;
    entry.organ_class = name.organ_class;
    entry.block = name.block;
    entry.out_type = options.encode ? options.out_type.value_or(tensor.type) : tensor.type;
    entry.skipped = why_skipped(tensor, name.organ_class, options);
    if (entry.skipped.empty()) {
      entry.cols = static_cast<std::int64_t>(tensor.dimensions[0]);
      entry.rows = static_cast<std::int64_t>(tensor.dimensions[1]);
      entry.matrices.resize(matrix_count(tensor));
    }
    out.push_back(std::move(entry));
  }
  return out;
}

std::uint64_t min_bytes(const GgufSource& source, const measure::Backend& backend,
                        const PurifyOptions& options, const std::vector<PurifiedTensor>& tensors) {
  std::uint64_t least = 0;
  for (const PurifiedTensor& tensor : tensors) {
    if (!tensor.matrices.empty()) {
      const decode::Encoding encoding =
          decode::plain_encoding(source.tensors()[tensor.tensor].type);
      least = std::max(least,
                       purify_matrix_bytes(backend, options, encoding, tensor.rows, tensor.cols));
    }
  }
  return least;
}

/// One matrix of one tensor.
struct Unit {
  std::size_t tensor = 0;
  std::size_t matrix = 0;
};

/// The K-th matrix of a tensor, its bytes read.
PurifiedMatrix purify_unit(const GgufSource& source, const MatrixTools& tools,
                           const PurifiedTensor& tensor, std::size_t index) {
  const OrganTensor& stored = source.tensors()[tensor.tensor];
  const decode::Encoding encoding = decode::plain_encoding(stored.type);
  std::vector<std::byte> bytes(stored.bytes / tensor.matrices.size());
  source.read(stored, index * bytes.size(), bytes);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = tensor.rows;
  matrix.cols = tensor.cols;
  matrix.codes = bytes.data();
  matrix.row_stride_bytes = static_cast<std::int64_t>(bytes.size()) / tensor.rows;
  return purify_matrix(tools, matrix, tensor.out_type);
}

/// A stack has one type: where it is a new one, every matrix of it must be storable.
void withdraw_what_cannot_be_stored(PurifiedTensor& tensor) {
  const auto bad = std::find_if(tensor.matrices.begin(), tensor.matrices.end(),
                                [](const PurifiedMatrix& matrix) { return !matrix.storable; });
  if (!tensor.changed() || bad == tensor.matrices.end()) {
    return;
  }
  for (PurifiedMatrix& matrix : tensor.matrices) {
    if (matrix.changed) {
      matrix.changed = false;
      matrix.outcome = "overflow";
      matrix.reason =
          fmt::format("matrix {} of the stack cannot be stored as {}",
                      bad - tensor.matrices.begin(), decode::element_type_name(tensor.out_type));
    }
  }
}

}  // namespace

bool PurifiedTensor::changed() const {
  return std::any_of(matrices.begin(), matrices.end(),
                     [](const PurifiedMatrix& matrix) { return matrix.changed; });
}

std::size_t PurifyResult::changed_count() const {
  return static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [](const PurifiedTensor& tensor) { return tensor.changed(); }));
}

PurifyResult purify_model(const GgufSource& source, measure::Backend& backend,
                          const PurifyOptions& options) {
  PurifyResult result;
  result.options = options;
  result.tensors = plan(source, options);
  const std::uint64_t least = min_bytes(source, backend, options, result.tensors);
  if (least > options.ram_budget) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("--ram-budget of {} bytes is too small: the largest matrix needs "
                                "{} bytes at least",
                                options.ram_budget, least));
  }
  if (options.encode && options.keep_weights) {
    result.weights = std::make_shared<write::ScratchFile>(options.scratch_folder);
  }
  if (options.keep_factors) {
    result.factors = std::make_shared<write::ScratchFile>(options.scratch_folder);
  }
  std::vector<Unit> units;
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    for (std::size_t k = 0; k < result.tensors[i].matrices.size(); ++k) {
      units.push_back({i, k});
    }
  }
  const MatrixTools tools{backend, options, result.weights.get(), result.factors.get()};
  const std::uint64_t fitting = least == 0 ? 1 : options.ram_budget / least;
  const auto calls = static_cast<std::uint64_t>(std::max(backend.limits().concurrent_calls, 1));
  std::mutex mutex;
  std::size_t done = 0;
  const auto purify_one = [&](std::size_t /*worker*/, std::size_t i) {
    throw_if_stopped(options.stop);
    PurifiedTensor& tensor = result.tensors[units[i].tensor];
    tensor.matrices[units[i].matrix] = purify_unit(source, tools, tensor, units[i].matrix);
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress) {
      options.progress(done, units.size());
    }
  };
  try {
    for_each_index(units.size(), static_cast<std::size_t>(std::min(fitting, calls)), purify_one);
  } catch (const Stopped&) {
    result.stopped = true;
  }
  for (PurifiedTensor& tensor : result.tensors) {
    if (tensor.out_type != source.tensors()[tensor.tensor].type) {
      withdraw_what_cannot_be_stored(tensor);
    }
  }
  return result;
}

}  // namespace vindex::organ
