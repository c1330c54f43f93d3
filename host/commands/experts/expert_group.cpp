// Owns the passes over one group: sums of inner products, then singular vectors, then the row.
#include "expert_group.hpp"

#include "expert_row.hpp"

#include "core/process/parallel.hpp"
#include "cpu/tridiagonal/symmetric_eigenvalues.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/range_reader.hpp"
#include "statistics/experts/expert_axis.hpp"
#include "statistics/experts/expert_nulls.hpp"
#include "statistics/spectrum/subspace_overlap.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stop_token>
#include <utility>

namespace vindex::commands {

namespace {

/// Matrices handed to a back end together at most, and their bytes.
constexpr std::int64_t kMaxTogether = 64;
constexpr std::uint64_t kBytesTogether = 256ULL << 20U;

/// Experts whose vectors are computed together.
std::int64_t batch_of(const Backend& backend, const ExpertOptions& options, std::uint64_t largest) {
  const std::int64_t most =
      std::max<std::int64_t>(options.threads, std::min(backend.limits().batch, kMaxTogether));
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kBytesTogether / std::max<std::uint64_t>(largest, 1)), 1, most);
}

MeasureOptions vector_options(const ExpertOptions& options, const std::stop_token& stop) {
  MeasureOptions wanted;
  wanted.mode = SpectrumMode::kFast;
  wanted.vectors = options.vectors;
  wanted.stop = stop;
  return wanted;
}

/// An expert that takes part.
struct Expert {
  std::int64_t number = 0;
  const model::MatrixRecord* matrix = nullptr;
  decode::EncodedMatrix view;  ///< whole; no codes
  std::exception_ptr error;
};

class GroupMeasurer {
 public:
  GroupMeasurer(engine::UnitStream& unit, const model::ModelIndex& index,
                const model::ExpertGroup& group, const ExpertOptions& options, Backend& backend)
      : unit_(unit),
        index_(index),
        group_(group),
        options_(options),
        backend_(backend),
        stop_(unit.stop_token()),
        watch_(unit.watch(0)) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      if (group.members[i].error.empty()) {
        const auto number = static_cast<std::size_t>(group.members[i].matrix);
        experts_.push_back({static_cast<std::int64_t>(i), &index.matrices[number], {}, {}});
      }
    }
  }

  results::ResultRow measure() {
    read_companions();
    const std::vector<double> gram = read_gram();
    std::vector<bool> counts(group_.members.size(), false);
    for (const Expert& expert : experts_) {
      counts[static_cast<std::size_t>(expert.number)] = expert.error == nullptr;
    }
    if (std::none_of(counts.begin(), counts.end(), [](bool one) { return one; })) {
      return engine::failed_row(experts_.front().error);
    }
    ExpertFindings found;
    const model::MatrixRecord& record = group_.record;
    const std::int64_t length = record.rows * record.cols;
    found.cosines = statistics::expert_cosines(gram, counts, static_cast<double>(length));
    measure_spectrum(length, found);
    if (options_.vectors > 0) {
      measure_overlaps(found);
    }
    for (const Expert& expert : experts_) {
      if (expert.error != nullptr) {
        found.lost.emplace_back(expert.number, expert.error);
      }
    }
    found.method = backend_.info().name;
    return expert_row(group_, found, options_.experts);
  }

 private:
  input::ByteRange range_of(const model::TensorPart& part, std::uint64_t offset,
                            std::uint64_t bytes) const {
    return {&engine::source_of(watch_.files(), part.tensor), part.offset + offset, bytes};
  }

  void read_companions() {
    std::vector<input::ByteRange> ranges;
    std::vector<std::uint64_t> sizes;
    for (const Expert& expert : experts_) {
      for (const model::CompanionPart& companion : expert.matrix->companions) {
        ranges.push_back(range_of(companion.part, 0, companion.part.bytes));
        sizes.push_back(companion.part.bytes);
      }
    }
    if (!ranges.empty()) {
      companions_ = std::make_unique<engine::RangeSet>(unit_, engine::RangeSet::bytes_for(sizes));
      companions_->begin(std::move(ranges));
      companions_->wait();
    }
    std::size_t next = 0;
    for (Expert& expert : experts_) {
      std::vector<std::span<const std::byte>> bytes;
      for (const model::CompanionPart& companion : expert.matrix->companions) {
        watch_.was_read(companion.part.tensor);
        lose(expert, companions_->errors()[next]);
        bytes.emplace_back(companions_->at(next++), companion.part.bytes);
      }
      expert.view = engine::encoded_view(*expert.matrix, nullptr, bytes);
      try {
        if (expert.error == nullptr) {
          engine::check_companions(*expert.matrix, expert.view);
        }
      } catch (const Error&) {
        lose(expert, std::current_exception());
      }
    }
  }

  static void lose(Expert& expert, const std::exception_ptr& error) {
    if (expert.error == nullptr) {
      expert.error = error;
    }
  }

  std::vector<input::ByteRange> ranges_of(const ExpertCut& cut) const {
    std::vector<input::ByteRange> ranges;
    for (const Expert& expert : experts_) {
      const CutBytes bytes = cut_of(expert.view, cut);
      ranges.push_back(range_of(expert.matrix->codes, bytes.offset, bytes.bytes));
    }
    return ranges;
  }

  /// E x E; zeros where nothing could be read.
  std::vector<double> read_gram() {
    const std::size_t count = group_.members.size();
    const InnerProductShape shape{.left = static_cast<std::int64_t>(experts_.size()),
                                  .cols = experts_.front().matrix->stored_cols(),
                                  .threads = options_.threads,
                                  .stop = stop_};
    const auto products = backend_.inner_products(shape);
    const std::vector<ExpertCut> cuts = cuts_of(index_, group_, options_.cut_bytes);
    const std::uint64_t bytes = engine::RangeSet::bytes_for(bytes_of_cuts(index_, group_, cuts));
    std::vector<decode::EncodedMatrix> pieces(experts_.size());
    const auto add = [&](std::size_t turn, const engine::RangeSet& set) {
      for (std::size_t e = 0; e < experts_.size(); ++e) {
        Expert& expert = experts_[e];
        watch_.was_read(expert.matrix->codes.tensor);
        lose(expert, set.errors()[e]);
        const CutBytes part = cut_of(expert.view, cuts[turn]);
        pieces[e] = part.view;
        pieces[e].codes = set.at(e) - part.lead;
        if (expert.error != nullptr) {
          pieces[e].encoding = nullptr;  // zeros: its neighbours go on
        }
      }
      products->add({.matrices = pieces});
    };
    engine::read_in_turns(
        unit_, bytes, cuts.size(), [&](std::size_t turn) { return ranges_of(cuts[turn]); }, add);
    ask_files();
    std::vector<double> own(experts_.size() * experts_.size());
    products->read(own);
    std::vector<double> gram(count * count, 0.0);
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      for (std::size_t j = 0; j < experts_.size(); ++j) {
        gram[static_cast<std::size_t>(experts_[i].number) * count +
             static_cast<std::size_t>(experts_[j].number)] = own[i * experts_.size() + j];
      }
    }
    return gram;
  }

  /// The spectrum, and its nulls and those of centred cosines.
  void measure_spectrum(std::int64_t length, ExpertFindings& found) const {
    statistics::ExpertCosines& cosines = found.cosines;
    const std::vector<double> values =
        cosines.counted < 2
            ? std::vector<double>()
            : cpu::symmetric_eigenvalues(cosines.centred_gram, cosines.counted, stop_);
    const statistics::ExpertNulls nulls = statistics::draw_expert_nulls(
        cosines.counted_norms, length, cpu::symmetric_eigenvalues, stop_);
    if (nulls.draws >= statistics::kEnoughDraws) {
      cosines.centred.null_mean = nulls.cosine_mean.mean;
      cosines.centred.null_mean_sd = nulls.cosine_mean.deviation;
      cosines.centred.null_most = nulls.cosine_max.mean;
      cosines.centred.null_most_sd = nulls.cosine_max.deviation;
    }
    found.spectrum = statistics::expert_spectrum(
        values, static_cast<std::int64_t>(group_.members.size()), length, nulls);
  }

  /// Whether the files are still those that were opened.
  void ask_files() {
    for (Expert& expert : experts_) {
      lose(expert, watch_.error(expert.matrix->codes.tensor));
      for (const model::CompanionPart& companion : expert.matrix->companions) {
        lose(expert, watch_.error(companion.part.tensor));
      }
    }
  }

  /// Top singular vectors of every expert, a batch of them while the next is read.
  void measure_overlaps(ExpertFindings& found) {
    const model::MatrixRecord& record = group_.record;
    const auto count = static_cast<std::int64_t>(group_.members.size());
    const std::int64_t k = options_.vectors;
    found.vectors = k;
    if (const std::int64_t side = std::min(record.rows, record.cols); k > side) {
      found.notes.push_back(fmt::format("no top {}: the short side of an expert is {}", k, side));
      return;
    }
    SubspaceStack right(count, k, record.cols);
    SubspaceStack left(count, k, record.rows);
    std::vector<Expert*> readable;
    std::uint64_t largest = 0;
    for (Expert& expert : experts_) {
      if (expert.error == nullptr &&
          std::isfinite(found.cosines.norm[static_cast<std::size_t>(expert.number)])) {
        readable.push_back(&expert);
        largest = std::max(largest, expert.matrix->codes.bytes);
      }
    }
    const auto batch = static_cast<std::size_t>(batch_of(backend_, options_, largest));
    const std::uint64_t bytes =
        engine::RangeSet::bytes_for(std::vector<std::uint64_t>(batch, largest));
    const auto batch_at = [&](std::size_t turn) {
      return std::span(readable).subspan(turn * batch,
                                         std::min(batch, readable.size() - turn * batch));
    };
    engine::read_in_turns(
        unit_, bytes, (readable.size() + batch - 1) / batch,
        [&](std::size_t turn) {
          std::vector<input::ByteRange> ranges;
          for (const Expert* expert : batch_at(turn)) {
            ranges.push_back(range_of(expert->matrix->codes, 0, expert->matrix->codes.bytes));
          }
          return ranges;
        },
        [&](std::size_t turn, const engine::RangeSet& set) {
          take_vectors(batch_at(turn), set, k, right, left, found);
        });
    ask_files();
    for (const Expert& expert : experts_) {
      const auto number = static_cast<std::size_t>(expert.number);
      right.known[number] = right.known[number] && expert.error == nullptr;
      left.known[number] = left.known[number] && expert.error == nullptr;
    }
    found.overlap_right = subspace_overlaps(backend_, right, options_.threads, stop_);
    found.overlap_left = subspace_overlaps(backend_, left, options_.threads, stop_);
  }

  void take_vectors(std::span<Expert* const> batch, const engine::RangeSet& set, std::int64_t k,
                    SubspaceStack& right, SubspaceStack& left, ExpertFindings& found) {
    std::vector<std::unique_ptr<MatrixInput>> inputs;
    std::vector<MatrixInput*> pointers;
    std::vector<const Expert*> read;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      watch_.was_read(batch[i]->matrix->codes.tensor);
      lose(*batch[i], set.errors()[i]);
      if (batch[i]->error != nullptr) {
        continue;
      }
      decode::EncodedMatrix whole = batch[i]->view;
      whole.codes = set.at(i);
      inputs.push_back(make_memory_input(whole, batch[i]->matrix->transposed));
      pointers.push_back(inputs.back().get());
      read.push_back(batch[i]);
    }
    std::vector<MatrixReport> reports(pointers.size());
    const MeasureOptions wanted = vector_options(options_, stop_);
    if (backend_.limits().batch > 1) {
      backend_.measure(pointers, wanted, 0, reports);
    } else {
      for_each_index(pointers.size(), static_cast<std::size_t>(options_.threads),
                     [&](std::size_t, std::size_t i) {
                       backend_.measure({&pointers[i], 1}, wanted, 0, {&reports[i], 1});
                     });
    }
    for (std::size_t i = 0; i < read.size(); ++i) {
      const auto& vectors = reports[i].vectors;
      const std::int64_t number = read[i]->number;
      const statistics::SubspaceGap gap =
          statistics::subspace_gap(reports[i], k, std::min(group_.record.rows, group_.record.cols));
      if (!gap.error.empty()) {
        found.notes.push_back(fmt::format("expert {}: no definite top {}: {}{}{}", number, k,
                                          gap.error, reports[i].reason.empty() ? "" : ", ",
                                          reports[i].reason));
        continue;
      }
      right.keep(number, vectors->right);
      left.keep(number, vectors->left);
    }
  }

  engine::UnitStream& unit_;
  const model::ModelIndex& index_;
  const model::ExpertGroup& group_;
  const ExpertOptions& options_;
  Backend& backend_;
  std::stop_token stop_;
  engine::SourceWatch& watch_;
  std::vector<Expert> experts_;
  std::unique_ptr<engine::RangeSet> companions_;
};

}  // namespace

ExpertMemory expert_memory(const model::ModelIndex& index, const model::ExpertGroup& group,
                           const ExpertOptions& options, const Backend& backend) {
  const auto count = static_cast<std::uint64_t>(group.members.size());
  const auto most = static_cast<std::uint64_t>(options.experts);
  std::vector<std::uint64_t> companions;
  std::uint64_t largest = 0;
  std::uint64_t solver = 0;
  std::int64_t cols = 1;
  for (const model::GroupMember& member : group.members) {
    if (!member.error.empty()) {
      continue;
    }
    const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(member.matrix)];
    for (const model::CompanionPart& companion : matrix.companions) {
      companions.push_back(companion.part.bytes);
    }
    cols = matrix.stored_cols();
    if (matrix.codes.bytes > largest) {
      largest = matrix.codes.bytes;
      solver =
          options.vectors == 0
              ? 0
              : backend.workspace_bytes(matrix.encoding, matrix.stored_rows(), matrix.stored_cols(),
                                        vector_options(options, {}), InputBytes::kHeld);
    }
  }
  const std::vector<ExpertCut> cuts = cuts_of(index, group, options.cut_bytes);
  const InnerProductShape shape{
      .left = static_cast<std::int64_t>(count), .cols = cols, .threads = options.threads};
  // Sums, cosines and the centred Gram; its eigenvalues.
  const std::uint64_t grams = count * count * (4 * sizeof(double) + 2 * sizeof(float)) +
                              cpu::symmetric_eigenvalues_bytes(static_cast<std::int64_t>(count));
  std::uint64_t sets = 2 * engine::RangeSet::bytes_for(bytes_of_cuts(index, group, cuts));
  const std::uint64_t pass = sets + backend.inner_product_memory(shape).host;
  ExpertMemory memory;
  memory.row =
      most * most * sizeof(float) * (options.vectors > 0 ? 4 : 2) + 3 * most * sizeof(double);
  std::uint64_t overlaps = 0;
  if (options.vectors > 0) {
    const auto batch = static_cast<std::uint64_t>(batch_of(backend, options, largest));
    const auto sides = static_cast<std::uint64_t>(group.record.rows + group.record.cols);
    const std::uint64_t vectors =
        static_cast<std::uint64_t>(options.vectors) * sides * sizeof(float);
    const std::uint64_t at_once =
        backend.limits().batch > 1 ? 1 : static_cast<std::uint64_t>(options.threads);
    const std::uint64_t wholes = 2 * engine::RangeSet::bytes_for(std::vector<std::uint64_t>(
                                         static_cast<std::size_t>(batch), largest));
    sets = std::max(sets, wholes);
    const std::uint64_t solving = wholes + at_once * solver + batch * vectors;
    const std::uint64_t comparing =
        subspace_overlap_bytes(backend, static_cast<std::int64_t>(count), options.vectors,
                               std::max(group.record.rows, group.record.cols), options.threads);
    overlaps = count * vectors + std::max(solving, comparing);
  }
  memory.pieces = engine::RangeSet::bytes_for(companions) + sets;
  memory.workspace = grams + std::max(pass, overlaps) - sets;  // both have their sets
  return memory;
}

double expert_flops(const model::ExpertGroup& group) {
  const auto count = static_cast<double>(group.present());
  return count * (count + 1.0) * static_cast<double>(group.record.rows) *
         static_cast<double>(group.record.cols);
}

results::ResultRow measure_group(engine::UnitStream& unit, const model::ModelIndex& index,
                                 const model::ExpertGroup& group, const ExpertOptions& options,
                                 Backend& backend) {
  return GroupMeasurer(unit, index, group, options, backend).measure();
}

}  // namespace vindex::commands
