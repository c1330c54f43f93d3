// The model with what changed, and the factors by themselves.
#include "purify.hpp"

#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "core/json/json_document.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"
#include "organ/writing/compose_folder.hpp"
#include "organ/writing/provenance.hpp"
#include "write/output_folder.hpp"
#include "write/safetensors_writer.hpp"
#include "write/scratch_file.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::purify {
namespace {

constexpr std::uint64_t kWritePiece = std::uint64_t{1} << 20U;

/// Moves `count` bytes in pieces from `read` to `write`, offsets counted from 0.
template <typename Read, typename Write>
void in_pieces(std::uint64_t count, Read read, Write write) {
  std::vector<std::byte> piece(std::min(count, kWritePiece));
  for (std::uint64_t at = 0; at < count; at += piece.size()) {
    piece.resize(std::min(count - at, kWritePiece));
    read(at, std::span(piece));
    write(at, std::span<const std::byte>(piece));
  }
}

/// A matrix that stayed as it was, in a stack that has a new type: decoded and encoded by rows.
void convert_matrix(const organ::GgufSource& source, const PurifiedTensor& tensor,
                    std::size_t index, std::uint64_t first, const organ::TensorSink& sink) {
  const organ::OrganTensor& stored = source.tensors()[tensor.tensor];
  const decode::Encoding before = decode::plain_encoding(stored.type);
  const decode::Encoding after = decode::plain_encoding(tensor.out_type);
  const std::uint64_t matrix_bytes = stored.bytes / tensor.matrices.size();
  const auto row_bytes = static_cast<std::int64_t>(matrix_bytes) / tensor.rows;
  const std::int64_t most =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kWritePiece) / row_bytes);
  for (std::int64_t row = 0; row < tensor.rows; row += most) {
    const std::int64_t rows = std::min(most, tensor.rows - row);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * row_bytes));
    source.read(stored, index * matrix_bytes + static_cast<std::uint64_t>(row * row_bytes), bytes);
    decode::EncodedMatrix view;
    view.encoding = &before;
    view.rows = rows;
    view.cols = tensor.cols;
    view.codes = bytes.data();
    view.row_stride_bytes = row_bytes;
    std::vector<float> values(static_cast<std::size_t>(rows * tensor.cols));
    decode::decode_matrix(view, values.data(), tensor.cols);
    std::vector<std::byte> codes(decode::encoded_size(after, rows, tensor.cols).value().code_bytes);
    decode::encode_matrix(after, values.data(), rows, tensor.cols, tensor.cols, codes, {});
    sink(first, codes);
    first += codes.size();
  }
}

void make_tensor(const organ::GgufSource& source, const PurifyResult& result,
                 const PurifiedTensor& tensor, const organ::TensorSink& sink) {
  const organ::OrganTensor& stored = source.tensors()[tensor.tensor];
  const std::uint64_t bytes =
      decode::encoded_size(decode::plain_encoding(tensor.out_type), tensor.rows, tensor.cols)
          .value()
          .code_bytes;
  for (std::size_t k = 0; k < tensor.matrices.size(); ++k) {
    const PurifiedMatrix& matrix = tensor.matrices[k];
    const auto write = [&](std::uint64_t at, std::span<const std::byte> piece) {
      sink(k * bytes + at, piece);
    };
    if (matrix.changed) {
      in_pieces(
          bytes,
          [&](std::uint64_t at, std::span<std::byte> into) {
            result.weights->read(matrix.codes_at + at, into);
          },
          write);
    } else if (tensor.out_type == stored.type) {
      in_pieces(
          bytes,
          [&](std::uint64_t at, std::span<std::byte> into) {
            source.read(stored, k * bytes + at, into);
          },
          write);
    } else {
      convert_matrix(source, tensor, k, k * bytes, sink);
    }
  }
}

bool write_model(const organ::GgufSource& source, const PurifyResult& result,
                 const PurifyTargets& targets) {
  expects(result.weights != nullptr, "write_model: weights were kept");
  std::vector<organ::ComposedTensor> tensors = organ::passed_through(source);
  for (const PurifiedTensor& tensor : result.tensors) {
    if (tensor.changed()) {
      organ::ComposedTensor& made = tensors[tensor.tensor];
      made.source = nullptr;
      made.sha256.clear();
      made.layout.type = tensor.out_type;
      made.make = [&source, &result, &tensor](const organ::TensorSink& sink) {
        make_tensor(source, result, tensor, sink);
      };
    }
  }
  const std::size_t changed = result.changed_count();
  gguf::KeySection keys =
      changed == 0
          ? source.copy_keys(0, [](const gguf::Key& key) { return !organ::is_split_key(key.name); })
          : organ::changed_keys(
                source, tensors,
                {.parents = {&source},
                 .history = fmt::format("purify --method {}: {} of {} tensors changed",
                                        method_name(result.options.rule.method), changed,
                                        source.tensors().size())});
  const organ::Composition composition =
      organ::split_by_size(std::move(keys), std::move(tensors), targets.shard_bytes);
  const organ::ComposeOptions how = {.replace = targets.replace, .stop = result.options.stop};
  const organ::ComposeReport report =
      organ::means_organ_folder(targets.output, source)
          ? organ::compose_folder(
                composition, targets.output, how,
                {targets.tool, source.tensors_total(), "that of " + source.path()})
          : organ::compose(composition, targets.output, how);
  return !report.stopped;
}

/// Everything but the name: the caller publishes.
void write_factors(const organ::GgufSource& source, const PurifyResult& result, AtomicFile& file) {
  expects(result.factors != nullptr, "write_factors: factors were kept");
  const decode::ElementType type = result.options.factor_type;
  std::vector<write::SafetensorsTensor> tensors;
  std::vector<std::uint64_t> places;
  write::SafetensorsMetadata metadata = {
      {"schema", "organ-factors/1"},
      {"method", std::string(method_name(result.options.rule.method))}};
  for (const PurifiedTensor& tensor : result.tensors) {
    for (std::size_t k = 0; k < tensor.matrices.size(); ++k) {
      const PurifiedMatrix& matrix = tensor.matrices[k];
      if (!matrix.changed) {
        continue;
      }
      const std::string& stored = source.tensors()[tensor.tensor].name;
      const std::string name =
          tensor.matrices.size() == 1 ? stored : fmt::format("{}#{}", stored, k);
      tensors.push_back({name + ".a", type, {matrix.rank, tensor.cols}});
      places.push_back(matrix.a_at);
      tensors.push_back({name + ".b", type, {tensor.rows, matrix.rank}});
      places.push_back(matrix.b_at);
      const Json about = {{"rank", matrix.rank},
                          {"relative_change", matrix.change->relative_change},
                          {"energy_removed", matrix.change->energy_removed}};
      metadata.emplace_back(name, about.dump());
    }
  }
  write::SafetensorsWriter writer(file, tensors, metadata, write::TensorOrder::kAsGiven);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = write::stored_bytes(tensors[i]);
    in_pieces(
        bytes,
        [&](std::uint64_t at, std::span<std::byte> into) {
          result.factors->read(places[i] + at, into);
        },
        [&](std::uint64_t at, std::span<const std::byte> piece) { writer.write(i, at, piece); });
  }
  writer.finish();
}

}  // namespace

void require_free_targets(const organ::GgufSource& source, const PurifyTargets& targets) {
  const std::vector<std::string> paths = {targets.output, targets.factors};
  require_no_input(paths, source.input_paths());
  const bool is_folder = organ::means_organ_folder(targets.output, source);
  if (is_folder) {
    organ::require_free_organ_folder(targets.output, targets.shard_bytes);
  }
  for (const std::string& path : paths) {
    if (!path.empty() && !(is_folder && &path == paths.data())) {
      require_free_target(path, targets.replace, "--force");
    }
  }
  if (!targets.output.empty() && !targets.factors.empty() &&
      is_same_place(targets.output, targets.factors)) {
    throw UsageError("E-OUTPUT-KIND", "-o and --factors name the same file");
  }
}

bool write_results(const organ::GgufSource& source, const PurifyResult& result,
                   const PurifyTargets& targets) {
  std::optional<AtomicFile> factors;
  if (!targets.factors.empty()) {
    factors.emplace(targets.factors, write::kOutputErrors);
    write_factors(source, result, *factors);
  }
  if (!targets.output.empty() && !write_model(source, result, targets)) {
    return false;
  }
  if (factors) {
    factors->publish();
  }
  return true;
}

}  // namespace vindex::purify
