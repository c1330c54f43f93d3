// Owns the units of a CKA run, some layers of A beside those of B, and their rows.
#include "cka_job.hpp"

#include "cka_cells.hpp"

#include "core/constants.hpp"
#include "engine/units/unit_stream.hpp"
#include "statistics/cka/cka.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace vindex::commands {

namespace {

std::uint64_t bytes_of(const model::MatrixRecord& matrix) { return matrix.codes.bytes; }

}  // namespace

/// A layer opened for one tile: its rows, and copies of what is kept of it.
struct CkaJob::Opened {
  Opened(engine::SourceWatch& watch, const CkaSide& side, std::size_t number,
         std::span<const model::PromptRows> prompts, engine::Pooling pooling, std::int64_t slab,
         Kept& of_layer)
      : rows(watch, side.record(number), prompts, pooling), kept(&of_layer) {
    const std::lock_guard lock(kept->mutex);
    if (!kept->sums) {
      kept->sums = layer_sums(rows, slab);
    }
    self = kept->self;
  }
  TileLayer layer() { return {&rows, &*kept->sums, &self}; }
  void keep() {
    const std::lock_guard lock(kept->mutex);
    kept->self = self;
  }
  engine::ActivationRows rows;
  Kept* kept;
  std::optional<SelfSums> self;
};

CkaJob::CkaJob(CkaSide a, CkaSide b, ComparedRows rows, CkaShape shape, CkaPlan plan,
               std::vector<std::string> reasons, std::vector<std::unique_ptr<Backend>> backends,
               std::int32_t threads)
    : a_(std::move(a)),
      b_(std::move(b)),
      views_({{&a_.dump.files, &a_.dump.index}, {&b_.dump.files, &b_.dump.index}}),
      compared_(std::move(rows)),
      shape_(shape),
      plan_(plan),
      reasons_(std::move(reasons)),
      backends_(std::move(backends)),
      threads_(threads),
      kept_a_(a_.layers.size()),
      kept_b_(b_.layers.size()) {}

double CkaJob::cost_of(std::int64_t row) const {
  const auto layers = static_cast<double>(a_.layers.size());
  const auto width = static_cast<double>(a_.record(static_cast<std::size_t>(row)).cols);
  return plan_.cost.total() / layers * width / static_cast<double>(shape_.width_a);
}

engine::RowFacts CkaJob::facts(std::int64_t row) const {
  const model::MatrixRecord& record = a_.record(static_cast<std::size_t>(row));
  engine::RowFacts facts;
  facts.name = model::matrix_name(record);
  facts.bytes = bytes_of(record);
  facts.cost = cost_of(row);
  return facts;
}

std::vector<engine::RowWork> CkaJob::works(const std::vector<std::int64_t>& rows) const {
  constexpr std::uint64_t kRowBytes = 500;
  std::uint64_t bytes_b = 0;
  for (std::size_t layer = 0; layer < b_.layers.size(); ++layer) {
    bytes_b += bytes_of(b_.record(layer));
  }
  std::vector<engine::RowWork> works;
  for (const std::int64_t row : rows) {
    const model::MatrixRecord& record = a_.record(static_cast<std::size_t>(row));
    engine::RowWork work;
    work.row = row;
    work.name = record.tensor;
    work.cost = cost_of(row);
    work.read_bytes = bytes_of(record) + bytes_b / static_cast<std::uint64_t>(plan_.tile_a);
    work.result_bytes = kCkaArrays.size() * b_.layers.size() * sizeof(double) + kRowBytes;
    work.output_bytes = work.result_bytes;
    work.kind = 1;  // of one unit, as many as a worker should have
    work.reading = engine::Reading::kPieces;
    work.workspace = plan_.memory_bytes;
    works.push_back(std::move(work));
  }
  return works;
}

engine::WorkerLayout CkaJob::worker_layout() const {
  engine::WorkerLayout layout;
  layout.calls.assign(backends_.size(), 1);  // a product is shared by all threads
  layout.in_order = true;
  return layout;
}

/// The rows of some layers of A: fills them tile by tile of B.
class CkaJob::Tile {
 public:
  Tile(CkaJob& job, engine::UnitStream& unit, std::span<const std::int64_t> rows,
       const Multiplier& multiplier)
      : job_(job),
        numbers_(rows),
        multiplier_(multiplier),
        watch_a_(unit.watch(0)),
        watch_b_(unit.watch(1)) {
    const std::size_t columns = job.b_.layers.size();
    arrays_.assign(rows.size(),
                   std::vector<std::vector<double>>(kCkaArrays.size(), std::vector(columns, kNaN)));
    adjacent_.assign(rows.size(), {kNaN, kNaN, kNaN});
    adjacent_cka_.assign(rows.size(), kNaN);
    unknown_error_b_.resize(rows.size());
    open_left();
  }

  std::vector<results::ResultRow> run() {
    const auto step = static_cast<std::size_t>(job_.plan_.tile_b);
    for (std::size_t first = 0; first < job_.b_.layers.size(); first += step) {
      measure(first, std::min(step, job_.b_.layers.size() - first));
    }
    watch_a_.require_unchanged();
    watch_b_.require_unchanged();
    std::vector<results::ResultRow> rows;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      rows.push_back(finished_row(i));
    }
    return rows;
  }

 private:
  std::unique_ptr<Opened> open(bool is_b, std::size_t layer) {
    return std::make_unique<Opened>(is_b ? watch_b_ : watch_a_, is_b ? job_.b_ : job_.a_, layer,
                                    is_b ? job_.compared_.prompts_b : job_.compared_.prompts_a,
                                    job_.compared_.pooling,
                                    std::min<std::int64_t>(job_.plan_.slab, kSumRows),
                                    is_b ? job_.kept_b_[layer] : job_.kept_a_[layer]);
  }

  /// The layers of A, and behind them those that follow one of them without being among them.
  void open_left() {
    for (const std::int64_t number : numbers_) {
      left_.push_back(open(false, static_cast<std::size_t>(number)));
    }
    for (const std::int64_t number : numbers_) {
      const std::int64_t after = number + 1;
      if (after == job_.row_count()) {
        next_.push_back(-1);
        continue;
      }
      const auto among = std::find(numbers_.begin(), numbers_.end(), after);
      if (among != numbers_.end()) {
        next_.push_back(among - numbers_.begin());
        continue;
      }
      next_.push_back(static_cast<std::int64_t>(left_.size() + nexts_.size()));
      nexts_.push_back(open(false, static_cast<std::size_t>(after)));
    }
  }

  static std::vector<TileLayer> layers_of(const std::vector<std::unique_ptr<Opened>>& opened) {
    std::vector<TileLayer> layers;
    for (const auto& one : opened) {
      layers.push_back(one->layer());
    }
    return layers;
  }

  void measure(std::size_t first, std::size_t count) {
    std::vector<std::unique_ptr<Opened>> right;
    for (std::size_t j = first; j < first + count; ++j) {
      right.push_back(open(true, j));
    }
    // Adjacent layers of A are asked for once.
    const bool with_next = first == 0;
    const TileResult found =
        measure_tile(multiplier_, job_.plan_, layers_of(left_), layers_of(right),
                     with_next ? layers_of(nexts_) : std::vector<TileLayer>(),
                     with_next ? next_ : std::vector<std::int64_t>(next_.size(), -1),
                     {job_.compared_.groups, &job_.compared_.strata, job_.shape_.permutations,
                      job_.shape_.groups > 0});
    for (const auto* side : {&left_, &right, &nexts_}) {
      for (const auto& one : *side) {
        one->keep();
      }
    }
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (with_next) {
        set_adjacent(i, found.adjacent[i]);
      }
      for (std::size_t j = 0; j < count; ++j) {
        set_pair(i, first + j, found.pairs[i * count + j], *right[j]);
      }
    }
  }

  void set_pair(std::size_t i, std::size_t column, const TilePair& pair, const Opened& right) {
    const double cka = pair.estimate.cka;
    const statistics::PermutationNull null = statistics::null_of_draws(pair.permuted, cka);
    const statistics::JackknifeError error =
        statistics::jackknife_error(cka, pair.estimate.without, pair.estimate.directions);
    const auto set = [&](std::size_t array, double value) { arrays_[i][array][column] = value; };
    set(cka_array("cka"), cka);
    set(cka_array("cka_biased"), pair.biased);
    set(cka_array("null_mean"), null.mean);
    set(cka_array("null_q95"), null.q95);
    set(cka_array("p"), null.p);
    set(cka_array("ci_low"), error.low);
    set(cka_array("ci_high"), error.high);
    set(cka_array("se"), error.error);
    if (!right.kept->sums->is_finite) {
      not_finite_b_.insert(layer_number(true, column));
    } else if (!has_kernel(right)) {
      constant_b_.insert(layer_number(true, column));
    } else if (has_kernel(*left_[i]) && !pair.estimate.without.empty() && std::isnan(error.error)) {
      unknown_error_b_[i].insert(layer_number(true, column));
    }
  }

  void set_adjacent(std::size_t i, const Estimate& adjacent) {
    adjacent_cka_[i] = adjacent.cka;
    adjacent_[i] = statistics::jackknife_error(adjacent.cka, adjacent.without, adjacent.directions);
  }

  static bool has_kernel(const Opened& layer) { return layer.self && layer.self->has_kernel; }

  std::int32_t layer_number(bool is_b, std::size_t layer) const {
    return (is_b ? job_.b_ : job_.a_).record(layer).layer;
  }

  results::ResultRow finished_row(std::size_t i) {
    results::ResultRow row;
    row.index = numbers_[i];
    row.method = job_.plan_.by_rows ? "rows" : "features";
    if (!left_[i]->kept->sums->is_finite) {
      row.status = MatrixStatus::kNotFinite;
      row.reason = "activations that are not finite";
      return row;
    }
    row.status = MatrixStatus::kMeasured;
    add_reasons(i, row);
    row.cells = results::empty_cells(kCkaTable);
    const std::vector<double>& cka = arrays_[i][cka_array("cka")];
    std::size_t best = cka.size();
    for (std::size_t j = 0; j < cka.size(); ++j) {
      if (!std::isnan(cka[j]) && (best == cka.size() || cka[j] > cka[best])) {
        best = j;
      }
    }
    if (best < cka.size()) {
      row.cells[cka_cell("best_layer_b")] = layer_number(true, best);
      row.cells[cka_cell("best_cka")] = cka[best];
    }
    row.cells[cka_cell("adjacent_cka")] = adjacent_cka_[i];
    row.cells[cka_cell("adjacent_cka_se")] = adjacent_[i].error;
    for (std::vector<double>& values : arrays_[i]) {
      row.arrays.emplace_back(std::move(values));
    }
    return row;
  }

  /// Why numbers of this row are NaN.
  void add_reasons(std::size_t i, results::ResultRow& row) const {
    constexpr const char* kConstant = "no variation between rows";
    if (!has_kernel(*left_[i])) {
      engine::add_reason(row, fmt::format("{} in this layer", kConstant));
    }
    if (next_[i] >= 0) {
      const auto number = static_cast<std::size_t>(next_[i]);
      const Opened& next = number < left_.size() ? *left_[number] : *nexts_[number - left_.size()];
      if (!next.kept->sums->is_finite) {
        engine::add_reason(row, "activations that are not finite in the next layer");
      } else if (!has_kernel(next)) {
        engine::add_reason(row, fmt::format("{} in the next layer", kConstant));
      }
    }
    if (!not_finite_b_.empty()) {
      engine::add_reason(row, fmt::format("activations that are not finite in layers {} of B",
                                          fmt::join(not_finite_b_, ", ")));
    }
    if (!constant_b_.empty()) {
      engine::add_reason(
          row, fmt::format("{} in layers {} of B", kConstant, fmt::join(constant_b_, ", ")));
    }
    if (!unknown_error_b_[i].empty()) {
      engine::add_reason(row,
                         fmt::format("one prompt has all the variation between rows, here or in "
                                     "layers {} of B: no interval",
                                     fmt::join(unknown_error_b_[i], ", ")));
    }
    for (const std::string& reason : job_.reasons_) {
      engine::add_reason(row, reason);
    }
  }

  static constexpr std::int64_t kSumRows = 4096;

  CkaJob& job_;
  std::span<const std::int64_t> numbers_;
  const Multiplier& multiplier_;
  engine::SourceWatch &watch_a_, &watch_b_;
  std::vector<std::unique_ptr<Opened>> left_, nexts_;
  std::vector<std::int64_t> next_;
  std::vector<std::vector<std::vector<double>>> arrays_;  ///< [row][array][layer of B]
  std::vector<double> adjacent_cka_;
  std::vector<statistics::JackknifeError> adjacent_;
  std::set<std::int32_t> not_finite_b_, constant_b_;
  std::vector<std::set<std::int32_t>> unknown_error_b_;  ///< of each row
};

void CkaJob::process(engine::UnitStream& unit, std::size_t device, engine::RowSink& sink) {
  const Multiplier multiplier{*backends_[device], threads_, unit.stop_token()};
  const std::span<const std::int64_t> all = unit.unit->rows;
  const auto step = static_cast<std::size_t>(plan_.tile_a);
  for (std::size_t first = 0; first < all.size(); first += step) {
    const auto rows = all.subspan(first, std::min(step, all.size() - first));
    try {
      for (results::ResultRow& row : Tile(*this, unit, rows, multiplier).run()) {
        sink.push(std::move(row));
      }
    } catch (const std::exception&) {
      for (const std::int64_t row : rows) {
        sink.push_failed(row, std::current_exception());
      }
    }
  }
}

}  // namespace vindex::commands
