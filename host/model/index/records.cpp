// Owns building records: slices, orientation, ranges, names.
#include "records.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "model/adapters/adapter_names.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string_view>
#include <utility>

namespace vindex::model {

std::string matrix_name(const MatrixRecord& matrix) {
  return matrix.slice < 0 ? printable(matrix.tensor)
                          : fmt::format("{}[{}]", printable(matrix.tensor), matrix.slice);
}

namespace {

using input::StoredTensor;

// A bound that no model comes near, so that a few hostile bytes cannot become gigabytes of rows.
constexpr std::size_t kMaxMatrices = 4'000'000;
constexpr std::size_t kRecordsPerPiece = 2048;

/// The product of `shape`. Errors: FormatError where it does not fit.
std::int64_t logical_count(const LogicalTensor& logical) {
  std::uint64_t count = 1;
  for (const std::int64_t side : logical.shape) {
    const auto next =
        side < 0 ? std::nullopt
                 : checked_multiply(count, static_cast<std::uint64_t>(side == 0 ? 1 : side));
    if (!next || !checked_count(*next)) {
      throw FormatError("E-MODEL-TENSOR-SIZE", printable(logical.name),
                        "its number of elements does not fit 63 bits");
    }
    count = *next;
  }
  const bool empty =
      std::find(logical.shape.begin(), logical.shape.end(), 0) != logical.shape.end();
  return empty ? 0 : static_cast<std::int64_t>(count);
}

bool is_stack(Layout layout) {
  return layout == Layout::kExpertStack || layout == Layout::kExpertStackTransposed ||
         layout == Layout::kHeadStack;
}

/// Whether a fused pair is stored in x out, where its sibling's shape decides that: gate_up is
/// [.., 2I, H] beside down [.., H, I], or [.., H, 2I] beside [.., I, H]; never both.
std::optional<bool> transposed_pair(const std::vector<std::int64_t>& gate_up,
                                    const std::vector<std::int64_t>& down) {
  if (gate_up.size() != 3 || down.size() != 3 || gate_up[0] != down[0]) {
    return std::nullopt;
  }
  const auto halves = [](std::int64_t whole, std::int64_t half) {
    return whole % 2 == 0 && whole / 2 == half;
  };
  if (gate_up[2] == down[1] && halves(gate_up[1], down[2])) {
    return false;
  }
  if (gate_up[1] == down[2] && halves(gate_up[2], down[1])) {
    return true;
  }
  return std::nullopt;
}

/// What comes of a share of the logical tensors, beside their own records.
struct BuiltRows {
  std::vector<MatrixRecord> matrices;
  std::vector<Warning> warnings;
};

class Builder {
 public:
  /// `tensors`: one record for each of `logicals`, to be filled.
  Builder(const input::ModelFiles& files, const std::vector<LogicalTensor>& logicals,
          const Naming& naming, const IndexOptions& options, std::atomic<std::size_t>& matrix_count,
          std::vector<TensorRecord>& tensors, BuiltRows& share)
      : files_(files),
        logicals_(logicals),
        naming_(naming),
        options_(options),
        matrix_count_(matrix_count),
        tensors_(tensors),
        share_(share) {}

  /// Turns logicals [begin, end) into rows.
  void build(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      add(i);
    }
  }

 private:
  const StoredTensor& stored(std::int32_t tensor) const {
    return files_.tensors[static_cast<std::size_t>(tensor)];
  }

  /// The block of the weight that a part of an adapter belongs to, as its product's; the part
  /// itself is stored as it is, whatever that weight's layout.
  std::optional<Block> adapted_block(const std::string& name) {
    const std::string weight = adapted_weight(name, files_.format);
    if (weight.empty()) {
      return std::nullopt;
    }
    TensorName adapted;
    read_tensor_name(weight, naming_.dialect, adapted);
    const Meaning* known =
        naming_.table == nullptr || adapted.tower ? nullptr : naming_.table->find(adapted);
    return known == nullptr ? std::nullopt : std::optional(known->block);
  }

  void add(std::size_t i) {
    const LogicalTensor& logical = logicals_[i];
    read_tensor_name(logical.name, naming_.dialect, name_);
    const Meaning* known =
        naming_.table == nullptr || name_.tower ? nullptr : naming_.table->find(name_);
    Meaning meaning = known == nullptr ? Meaning{} : *known;
    if (const auto block = adapted_block(logical.name)) {
      meaning = Meaning{};
      meaning.block = *block;
    }

    TensorRecord& record = tensors_[i];
    record.name = logical.name;
    record.stored = logical.stored;
    record.block = meaning.block;
    record.role = std::string(meaning.role.empty() || name_.bias ? name_.last : meaning.role);
    record.layer = name_.tower ? -1 : name_.layer;
    record.shape = logical.shape;
    record.encoding = logical.encoding.label;
    record.count = logical.shape_known ? logical_count(logical) : 0;
    record.reason = reason_for_no_matrix(logical, meaning, record.count);
    record.in_matrix = record.reason.empty();
    if (!record.in_matrix) {
      return;
    }

    if (meaning.has_expert && name_.number_count > 0) {
      name_.expert = name_.numbers[0];
    }
    const bool reshaped = is_reshaped(logical, meaning);
    const bool stacked = !reshaped && logical.shape_known && logical.shape.size() == 3;
    bool transposed =
        meaning.layout == Layout::kTransposed || meaning.layout == Layout::kExpertStackTransposed;
    if (logical.quantised || reshaped) {
      transposed = false;  // packed schemes pack along the inputs, convolutions are out first
    } else if (stacked && meaning.layout != Layout::kHeadStack) {
      transposed = orientation(logical, transposed);
    }
    const std::int64_t slices = stacked ? logical.shape[0] : 1;
    if ((matrix_count_ += static_cast<std::size_t>(slices)) > kMaxMatrices) {
      throw FormatError("E-MODEL-MATRICES", printable(files_.path),
                        fmt::format("more than {} matrices", kMaxMatrices));
    }
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      add_matrix(i, meaning, transposed, stacked ? slice : -1, slices);
    }
  }

  /// A tensor of rank 3 and more that --reshape out makes one matrix of. Rows of blocks (GGUF) lie
  /// along the last side, so they divide the longer row too.
  bool is_reshaped(const LogicalTensor& logical, const Meaning& meaning) const {
    return options_.reshape_out && logical.shape_known && !logical.quantised &&
           logical.shape.size() >= 3 && !(logical.shape.size() == 3 && is_stack(meaning.layout));
  }

  /// Empty for a weight; else why this tensor makes no matrix.
  std::string reason_for_no_matrix(const LogicalTensor& logical, const Meaning& meaning,
                                   std::int64_t count) const {
    if (logical.orphan) {
      return "companion without its weight";
    }
    if (!logical.shape_known) {
      return "";  // a known scheme: one row, unsupported
    }
    if (logical.shape.empty()) {
      return "rank 0";
    }
    if (count == 0) {
      return "zero size";
    }
    if (logical.shape.size() == 1) {
      return "1-D";
    }
    if (name_.bias) {
      return "bias";
    }
    if (meaning.layout == Layout::kLookupTable) {
      return "lookup table";
    }
    if (!logical.quantised && logical.encoding.type == decode::ElementType::kBool) {
      return "BOOL";
    }
    if (logical.shape.size() == 2 || is_reshaped(logical, meaning)) {
      return "";
    }
    // Schemes of several tensors pack matrices, so three sides are a stack under any name.
    if (logical.shape.size() == 3 && (is_stack(meaning.layout) || logical.quantised)) {
      return logical.shape[0] <= kMaxSlices
                 ? ""
                 : fmt::format("a stack of more than {} slices", kMaxSlices);
    }
    if (options_.reshape_out && logical.quantised) {
      return fmt::format("{}-D of {}: packed along its last side, not as out x rest",
                         logical.shape.size(), logical.encoding.label);
    }
    if (logical.name.find("conv") != std::string::npos) {
      return "convolution";
    }
    return fmt::format("{}-D, no known stack", logical.shape.size());
  }

  const LogicalTensor* find(const std::string& name) const {
    const auto found =
        std::lower_bound(logicals_.begin(), logicals_.end(), name,
                         [](const LogicalTensor& logical, const std::string& wanted) {
                           return logical.name < wanted;
                         });
    return found != logicals_.end() && found->name == name ? &*found : nullptr;
  }

  /// `declared`, unless the shapes of a fused pair say otherwise: then those are believed.
  bool orientation(const LogicalTensor& logical, bool declared) {
    constexpr std::string_view kGateUp = "gate_up_proj";
    constexpr std::string_view kDown = "down_proj";
    const bool is_gate_up = name_.last == kGateUp;
    if (!is_gate_up && name_.last != kDown) {
      return declared;
    }
    const std::string_view own = is_gate_up ? kGateUp : kDown;
    std::string sibling_name = logical.name;
    const std::size_t at = sibling_name.rfind(own);
    sibling_name.replace(at, own.size(), is_gate_up ? kDown : kGateUp);
    const LogicalTensor* sibling = find(sibling_name);
    if (sibling == nullptr || !sibling->shape_known) {
      return declared;
    }
    const auto shown = is_gate_up ? transposed_pair(logical.shape, sibling->shape)
                                  : transposed_pair(sibling->shape, logical.shape);
    if (!shown || *shown == declared) {
      return declared;
    }
    if (naming_.layout_declared && !layout_warned_) {
      layout_warned_ = true;
      share_.warnings.push_back(
          {"W-LAYOUT", fmt::format("{} is stored {}, unlike its architecture's own files; the "
                                   "shapes are believed",
                                   printable(logical.name), *shown ? "in x out" : "out x in")});
    }
    return *shown;
  }

  /// Slice `slice` (-1: the whole) of logical `i`, whose record is filled.
  void add_matrix(std::size_t i, const Meaning& meaning, bool transposed, std::int64_t slice,
                  std::int64_t slices) {
    const LogicalTensor& logical = logicals_[i];
    const TensorRecord& record = tensors_[i];
    MatrixRecord& matrix = share_.matrices.emplace_back();
    matrix.tensor = logical.name;
    matrix.slice = static_cast<std::int32_t>(slice);
    matrix.layer = record.layer;
    matrix.expert = name_.tower ? -1 : name_.expert;
    if (slice >= 0 && is_stack(meaning.layout) && meaning.layout != Layout::kHeadStack) {
      matrix.expert = matrix.slice;
    }
    matrix.block = meaning.block;
    matrix.role = record.role;
    matrix.shard =
        files_.shards.empty()
            ? std::string()
            : files_.shards[static_cast<std::size_t>(stored(logical.codes).shard)].file_name;
    matrix.transposed = transposed;
    matrix.encoding = logical.encoding;
    matrix.unsupported = logical.unsupported;
    matrix.tensor_record = static_cast<std::int32_t>(i);
    if (logical.shape_known) {
      const std::size_t rank = logical.shape.size();
      if (is_reshaped(logical, meaning)) {
        matrix.rows = logical.shape[0];
        matrix.cols = record.count / logical.shape[0];
      } else {
        matrix.rows = logical.shape[rank - (transposed ? 1 : 2)];
        matrix.cols = logical.shape[rank - (transposed ? 2 : 1)];
      }
    }
    set_parts(files_, logical, slice, slices, matrix);
  }

  const input::ModelFiles& files_;
  const std::vector<LogicalTensor>& logicals_;
  const Naming& naming_;
  const IndexOptions& options_;
  std::atomic<std::size_t>& matrix_count_;  ///< of all shares
  std::vector<TensorRecord>& tensors_;      ///< of all shares
  BuiltRows& share_;
  TensorName name_;
  bool layout_warned_ = false;
};

/// Puts the shares' rows together, in order.
void join(std::vector<BuiltRows>& shares, ModelIndex& index) {
  std::vector<MatrixRecord*> all;
  for (BuiltRows& share : shares) {
    for (MatrixRecord& matrix : share.matrices) {
      all.push_back(&matrix);
    }
  }
  index.matrices.reserve(all.size());
  for (const std::uint32_t i : row_order({all.begin(), all.end()})) {
    index.matrices.push_back(std::move(*all[i]));
  }
  // A builder says once how a layout departs, and the first stands for all.
  const auto first = std::find_if(shares.begin(), shares.end(),
                                  [](const BuiltRows& share) { return !share.warnings.empty(); });
  if (first != shares.end()) {
    std::move(first->warnings.begin(), first->warnings.end(), std::back_inserter(index.warnings));
  }
}

}  // namespace

void build_records(const input::ModelFiles& files, const std::vector<LogicalTensor>& logicals,
                   const Naming& naming, const IndexOptions& options, ModelIndex& index) {
  const auto build = [&](std::size_t share_tensors, std::size_t threads) {
    std::vector<BuiltRows> shares(ceil_divide(logicals.size(), share_tensors));
    index.tensors.assign(logicals.size(), {});
    std::atomic<std::size_t> matrix_count = 0;
    for_each_index(shares.size(), threads, [&](std::size_t /*worker*/, std::size_t i) {
      Builder builder(files, logicals, naming, options, matrix_count, index.tensors, shares[i]);
      builder.build(i * share_tensors, std::min(logicals.size(), (i + 1) * share_tensors));
    });
    join(shares, index);
  };
  try {
    build(kRecordsPerPiece, thread_count(0, options.threads));
  } catch (const FormatError&) {
    // Too many matrices are noticed by whichever share comes last: once more, one after the other,
    // so that the first that is wrong is named.
    build(std::max<std::size_t>(logicals.size(), 1), 1);
  }
}

}  // namespace vindex::model
