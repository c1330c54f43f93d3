// Owns which matrices of a model are purified, in units over workers, and what was left alone and
// why.
#include "purify_matrix.hpp"

#include "core/integers.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encoding_table.hpp"
#include "engine/run/matrix_pass.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace vindex::purify {
namespace {

std::uint64_t matrix_count(const organ::OrganTensor& tensor) {
  return std::accumulate(tensor.dimensions.begin() + 2, tensor.dimensions.end(), std::uint64_t{1},
                         std::multiplies<>());
}

/// Why none of the tensor's matrices is tried; empty: they are. What the header says is enough.
std::string why_skipped(const organ::OrganTensor& tensor, organ::OrganClass organ_class,
                        const PurifyOptions& options) {
  if (!options.classes.contains(organ_class)) {
    return fmt::format("{}: not asked for (--include)", organ::class_name(organ_class));
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

std::vector<PurifiedTensor> plan(const organ::GgufSource& source, const PurifyOptions& options) {
  std::vector<PurifiedTensor> out;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const organ::OrganTensor& tensor = source.tensors()[i];
    const organ::OrganName name = organ::classify(tensor.name);
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

/// One matrix of one tensor.
struct Unit {
  std::size_t tensor = 0;
  std::size_t matrix = 0;
};

/// What is tried: every matrix, and what that takes.
struct Units {
  std::vector<Unit> units;
  std::vector<engine::RowWork> works;
};

Units units_of(const organ::GgufSource& source, const Backend& backend,
               const PurifyOptions& options, const std::vector<PurifiedTensor>& tensors) {
  Units out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PurifiedTensor& tensor = tensors[i];
    if (tensor.matrices.empty()) {
      continue;
    }
    const organ::OrganTensor& stored = source.tensors()[tensor.tensor];
    engine::RowWork work = {
        .name = stored.name,
        .cost = static_cast<double>(tensor.rows) * static_cast<double>(tensor.cols) *
                static_cast<double>(std::min(tensor.rows, tensor.cols)),
        .read_bytes = stored.bytes / tensor.matrices.size(),
        .reading = engine::Reading::kPieces,
        .workspace = purify_matrix_bytes(backend, options, decode::plain_encoding(stored.type),
                                         tensor.rows, tensor.cols)};
    for (std::size_t k = 0; k < tensor.matrices.size(); ++k) {
      work.row = std::ssize(out.units);
      out.units.push_back({i, k});
      out.works.push_back(work);
    }
  }
  return out;
}

/// The K-th matrix of a tensor, its bytes read.
PurifiedMatrix purify_unit(const organ::GgufSource& source, const MatrixTools& tools,
                           const PurifiedTensor& tensor, std::size_t index) {
  const organ::OrganTensor& stored = source.tensors()[tensor.tensor];
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

/// Once for each shape, after the work: beside no other matrix, so within the budget of one.
void note_noise_kept(const PurifyOptions& options, std::vector<PurifiedTensor>& tensors) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> shares;
  for (PurifiedTensor& tensor : tensors) {
    if (options.stop.stop_requested()) {
      return;
    }
    if (!tensor.matrices.empty()) {
      const std::pair shape{tensor.rows, tensor.cols};
      if (!shares.contains(shape)) {
        shares[shape] = noise_kept(options.rule, tensor.rows, tensor.cols);
      }
      tensor.noise_kept = shares[shape];
    }
  }
}

}  // namespace

decode::ElementType purify_type(const std::string& name, const char* option, bool encoded) {
  for (const decode::ElementTypeRow& row : decode::element_type_rows()) {
    if (row.name == name && row.ggml_id >= 0) {
      if (encoded && !decode::is_encodable(decode::plain_encoding(row.type))) {
        throw UsageError("E-PURIFY-TYPE",
                         fmt::format("{}: no encoder for {}; F32, F16, BF16, Q8_0, Q5_1, Q5_0, "
                                     "Q4_1 and Q4_0 have one",
                                     option, name));
      }
      return row.type;
    }
  }
  throw UsageError("E-PURIFY-TYPE",
                   fmt::format("{} `{}` is not a type of GGUF: F32, F16, BF16, Q8_0, "
                               "Q5_1, Q5_0, Q4_1, Q4_0",
                               option, printable(name)));
}

bool PurifiedTensor::changed() const {
  return std::any_of(matrices.begin(), matrices.end(),
                     [](const PurifiedMatrix& matrix) { return matrix.changed; });
}

std::size_t PurifyResult::changed_count() const {
  return static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [](const PurifiedTensor& tensor) { return tensor.changed(); }));
}

PurifyResult purify_model(const organ::GgufSource& source, Backend& backend,
                          const PurifyOptions& options) {
  PurifyResult result;
  result.options = options;
  result.tensors = plan(source, options);
  const Units all = units_of(source, backend, options, result.tensors);
  if (options.encode && options.keep_weights) {
    result.weights = std::make_shared<write::ScratchFile>(options.scratch_folder);
  }
  if (options.keep_factors) {
    result.factors = std::make_shared<write::ScratchFile>(options.scratch_folder);
  }
  const MatrixTools tools{backend, options, result.weights.get(), result.factors.get()};
  const engine::RunOutcome pass = engine::pass_over(
      {}, all.works,
      {.threads = std::max(backend.limits().concurrent_calls, 1), .ram_budget = options.ram_budget},
      [&](std::size_t i, engine::UnitStream& /*unit*/) {
        const Unit unit = all.units[i];
        PurifiedTensor& tensor = result.tensors[unit.tensor];
        tensor.matrices[unit.matrix] = purify_unit(source, tools, tensor, unit.matrix);
      },
      {.stop = options.stop, .progress = options.progress});
  result.stopped = pass.stopped;
  note_noise_kept(options, result.tensors);
  for (PurifiedTensor& tensor : result.tensors) {
    if (tensor.out_type != source.tensors()[tensor.tensor].type) {
      withdraw_what_cannot_be_stored(tensor);
    }
  }
  return result;
}

}  // namespace vindex::purify
