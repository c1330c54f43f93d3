// Owns gathering one layer after the other, and what stays of each.
#include "trace_statistics.hpp"

#include "commands/token_tables/activations_row.hpp"
#include "commands/trace/output/trace_cells.hpp"
#include "commands/trace/output/trace_dump.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/run/job.hpp"
#include "model/dump/dump.hpp"
#include "model/index/records.hpp"
#include "statistics/cka/gram_cka.hpp"
#include "statistics/routing/token_router.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::commands {

namespace {

/// Rows of tokens as what statistics are taken of.
class RowsInput final : public MatrixInput {
 public:
  explicit RowsInput(const TokenRows& rows) : rows_(rows) {}
  const decode::Encoding& encoding() const override { return decode::float32_encoding(); }
  std::int64_t rows() const override { return rows_.tokens(); }
  std::int64_t cols() const override { return rows_.width(); }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 0; }
  bool in_memory() const override { return false; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    slab_.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(cols()));
    rows_.read(first, count, slab_.data());
    decode::EncodedMatrix view = decode::float32_view(slab_.data(), count, cols());
    view.first_row = first;
    return view;
  }
  decode::EncodedMatrix column_slab(std::int64_t /*first*/, std::int64_t /*count*/) override {
    fail_expectation("RowsInput: rows alone");
  }

 private:
  const TokenRows& rows_;
  std::vector<float> slab_;
};

std::int64_t expert_count(const model::TransformerLayer& layer) {
  return layer.mixture ? static_cast<std::int64_t>(layer.mixture->experts.size()) : 0;
}

std::int64_t most_experts(const model::Transformer& model) {
  std::int64_t most = 0;
  for (const model::TransformerLayer& layer : model.layers) {
    most = std::max(most, expert_count(layer));
  }
  return most;
}

bool has_gram(const TracePrompts& prompts) {
  return std::ssize(prompts.lengths) <= kMostGramPrompts;
}

/// The arrays that a dump of everything would have.
std::vector<model::MatrixRecord> statistics_records(const model::Transformer& model,
                                                    std::int64_t tokens, bool logits) {
  DumpChoice choice;
  if (logits) {
    choice.keep.emplace(model::kLogitsRole);
  }
  std::vector<model::MatrixRecord> records;
  for (const DumpArrayPlan& array : plan_dump(choice, model, tokens)) {
    if (array.cols > 0) {
      model::MatrixRecord& record = records.emplace_back();
      record.tensor = array.name;
      record.role = array.role;
      record.layer = array.layer;
      record.rows = array.rows;
      record.cols = array.cols;
      record.encoding = decode::float32_encoding();
    }
  }
  model::sort_matrices(records.begin(), records.end());
  return records;
}

}  // namespace

void describe_statistics(const model::Transformer& model, const TracePrompts& prompts,
                         const StatisticsSettings& settings, results::RunDescription& description) {
  description.schema = results::FileSchema::kTrace;
  description.matrices = statistics_records(model, prompts.tokens(), settings.logits);
  description.fingerprint.emplace_back("prompts", prompts.digest());
  description.fingerprint.emplace_back("covariance", settings.backend != nullptr ? "1" : "0");
  const std::int64_t experts = std::max<std::int64_t>(1, most_experts(model));
  const auto count = static_cast<std::int64_t>(prompts.lengths.size());
  const std::int64_t pooled = has_gram(prompts) ? count : 1;
  description.scales = {
      {"prompt", results::ScaleValues::counted(pooled)},
      {"prompt_other", results::ScaleValues::counted(pooled)},
      {"threshold", results::ScaleValues(std::vector<double>(statistics::kNearZero.begin(),
                                                             statistics::kNearZero.end()))},
      {"expert", results::ScaleValues::counted(experts)},
      {"expert_other", results::ScaleValues::counted(experts)}};
  description.attributes.push_back({"tokens", prompts.tokens()});
  description.attributes.push_back({"prompts", count});
  description.attributes.push_back(
      {"nulls", std::string("those of vindex activations and vindex routing; cka: all orders of "
                            "the prompts (closed form); loss: the uniform law")});
}

std::uint64_t statistics_bytes(const model::Transformer& model, const TracePrompts& prompts) {
  const std::int64_t experts = most_experts(model);
  const auto count = static_cast<std::uint64_t>(prompts.lengths.size());
  const std::uint64_t of_gram = has_gram(prompts) ? count * count * sizeof(float) : 0;
  // The means of one layer, and the matrices of all layers where they are compared.
  const std::uint64_t gram =
      has_gram(prompts)
          ? std::max(
                count * static_cast<std::uint64_t>(model.hidden) * 2 * sizeof(double) + 3 * of_gram,
                static_cast<std::uint64_t>(model.layers.size()) * of_gram)
          : 0;
  const std::uint64_t routing =
      experts > 0 ? engine::routing_row_bytes(prompts.tokens(), experts, experts, experts) : 0;
  // Of a part: one layer, which is published as soon as it ends.
  constexpr std::uint64_t kPart = 32U << 20U;
  return std::max(gram, routing) +
         2 * (engine::routing_arrays_bytes(std::max<std::int64_t>(1, experts)) + of_gram) + kPart;
}

TraceStatistics::TraceStatistics(StatisticsSettings settings, const model::Transformer& model,
                                 const input::ModelFiles& files, const TracePrompts& prompts,
                                 results::RunDescription description, std::stop_token stop)
    : settings_(std::move(settings)),
      model_(model),
      prompts_(prompts),
      stop_(std::move(stop)),
      records_(description.matrices),
      experts_(most_experts(model)) {
  for (const model::TransformerLayer& layer : model.layers) {
    if (!layer.mixture) {
      continue;
    }
    engine::LayerRouter& router = routers_[layer.number];
    router.rule = layer.mixture->rule;
    router.rule.biased = router.rule.biased && layer.mixture->selection_bias;
    if (router.rule.biased) {
      router.bias = model::read_vector(files, layer.mixture->selection_bias);
    }
    const statistics::TokenRouter checked(router.rule, expert_count(layer), router.bias);
  }
  store_ = results::open_run_store(settings_.output, description, {}, settings_.restart);
}

std::int64_t TraceStatistics::row_number(std::string_view role, std::int32_t layer) const {
  const auto found = std::find_if(
      records_.begin(), records_.end(),
      [&](const model::MatrixRecord& one) { return one.role == role && one.layer == layer; });
  expects(found != records_.end(), "TraceStatistics: a row of the file");
  return found - records_.begin();
}

std::string TraceStatistics::router_path(std::int32_t layer) const {
  return fmt::format("{}/statistics.router_logits.{}", settings_.folder, layer);
}

std::unique_ptr<TokenRows> TraceStatistics::rows_of(std::int64_t width) const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(prompts_.tokens()) *
                              static_cast<std::uint64_t>(width) * sizeof(float);
  // Two kinds of a layer may be held, and a covariance takes as much again.
  return bytes <= settings_.ram_budget / 4
             ? make_rows_in_memory(prompts_.tokens(), width)
             : make_rows_in_file(prompts_.tokens(), width, settings_.scratch);
}

std::unique_ptr<TokenRows> TraceStatistics::router_rows(std::int32_t layer,
                                                        std::int64_t experts) const {
  return settings_.folder.empty() ? rows_of(experts)
                                  : open_rows_file(prompts_.tokens(), experts, router_path(layer));
}

void TraceStatistics::begin(std::int32_t layer) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigurationError(
        "E-TRACE-STATISTICS",
        fmt::format("{}: {}, and layers before {} do not come again: begin anew with --restart",
                    printable(settings_.output), what, layer));
  };
  for (std::size_t row = 0; row < records_.size(); ++row) {
    const model::MatrixRecord& record = records_[row];
    if (record.layer >= 0 && record.layer < layer && !is_done(static_cast<std::int64_t>(row))) {
      refuse(fmt::format("no row of {} is left", record.tensor));
    }
  }
  for (const auto& [number, router] : routers_) {
    if (number < layer) {
      layer_before_ = number;
    }
  }
  const bool comes_another = std::any_of(routers_.begin(), routers_.end(),
                                         [&](const auto& one) { return one.first >= layer; });
  if (layer_before_ >= 0 && comes_another) {
    if (settings_.folder.empty() || path_kind(router_path(layer_before_)) != PathKind::kFile) {
      refuse(fmt::format("the router logits of layer {} are gone", layer_before_));
    }
    const std::int64_t row = row_number(model::kRouterLogitsRole, layer_before_);
    router_before_ = router_rows(layer_before_, records_[static_cast<std::size_t>(row)].cols);
  }
}

void TraceStatistics::keep(std::unique_ptr<TokenRows>& rows, const TraceBlock& block) {
  if (rows == nullptr) {
    rows = rows_of(block.width);
  }
  rows->write(block.first, block.rows, block.values);
}

void TraceStatistics::hidden(const TraceBlock& block) { keep(hidden_, block); }

void TraceStatistics::mlp(const TraceBlock& block) { keep(mlp_, block); }

void TraceStatistics::router(const TraceBlock& logits,
                             std::span<const statistics::RoutedToken> /*routed*/) {
  if (router_ == nullptr) {
    router_ = router_rows(logits.layer, logits.width);
  }
  router_->write(logits.first, logits.rows, logits.values);
}

void TraceStatistics::add(std::string_view role, std::int32_t layer, const results::ResultRow& made,
                          const results::CellTable& table) {
  results::ResultRow row;
  static_cast<results::RowOutcome&>(row) = made;
  row.cells = results::empty_cells(kTraceTable);
  row.arrays.resize(kTraceArrays.size());
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const std::size_t place = results::column_number(kTraceTable.cells, table.cells[i].name);
    if (place < kTraceCells.size() && i < made.cells.size()) {
      row.cells[place] = made.cells[i];
    }
  }
  for (std::size_t i = 0; i < made.arrays.size(); ++i) {
    row.arrays[results::column_number(kTraceTable.arrays, table.arrays[i].name)] = made.arrays[i];
  }
  if (role == model::kHiddenRole && row.status == MatrixStatus::kMeasured) {
    add_gram(*hidden_, row);
  }
  row.index = row_number(role, layer);
  store_->add(std::move(row));
}

void TraceStatistics::add_gram(TokenRows& rows, results::ResultRow& row) const {
  if (!has_gram(prompts_)) {
    engine::add_reason(row, fmt::format("more than {} prompts: no Gram matrix", kMostGramPrompts));
    return;
  }
  const auto width = static_cast<std::size_t>(rows.width());
  const auto prompts = static_cast<std::int64_t>(prompts_.lengths.size());
  std::vector<double> means(prompts_.lengths.size() * width);
  std::vector<float> token(width);
  std::int64_t next = 0;
  double squares = 0.0;
  for (std::size_t prompt = 0; prompt < prompts_.lengths.size(); ++prompt) {
    const auto mean = std::span(means).subspan(prompt * width, width);
    for (std::int64_t i = 0; i < prompts_.lengths[prompt]; ++i, ++next) {
      rows.read(next, 1, token.data());
      for (std::size_t j = 0; j < width; ++j) {
        mean[j] += token[j];
      }
    }
    for (double& value : mean) {
      value /= static_cast<double>(prompts_.lengths[prompt]);
      squares += value * value;
    }
  }
  const std::vector<double> gram = statistics::centred_gram(means, prompts);
  row.cells[trace_cell("pooled_prompts")] = static_cast<double>(prompts);
  row.cells[trace_cell("mean_norm")] = std::sqrt(squares / static_cast<double>(prompts));
  row.arrays[trace_array("gram")] =
      results::ArrayCell(std::vector<float>(gram.begin(), gram.end()));
}

void TraceStatistics::add_values(std::string_view role, std::int32_t layer, TokenRows& rows) {
  if (is_done(row_number(role, layer))) {
    return;
  }
  results::ResultRow row;
  row.status = MatrixStatus::kMeasured;
  row.method = "float64";
  row.cells = results::empty_cells(engine::kActivationsTable);
  row.arrays.resize(engine::kActivationsArrays.size());
  RowsInput input(rows);
  const statistics::ActivationLaw law = role == model::kHiddenRole
                                            ? statistics::ActivationLaw::kGaussian
                                            : statistics::ActivationLaw::kProduct;
  if (settings_.backend == nullptr) {
    engine::add_activations(input, law, nullptr, stop_, row);
  } else {
    const engine::CovarianceTools tools{*settings_.backend, nulls_, settings_.threads};
    const std::uint64_t needed = engine::activations_row_bytes(rows.tokens(), rows.width(), &tools);
    const bool fits = needed <= settings_.ram_budget / 2;
    engine::add_activations(input, law, fits ? &tools : nullptr, stop_, row);
    if (!fits) {
      engine::add_reason(
          row, fmt::format("effective_rank takes {} MiB, beyond --ram-budget", needed >> 20U));
    }
  }
  add(role, layer, row, engine::kActivationsTable);
}

void TraceStatistics::add_router(std::int32_t layer) {
  if (is_done(row_number(model::kRouterLogitsRole, layer))) {
    return;
  }
  RowsInput own(*router_);
  const engine::RoutedLogits of_own{routers_.at(layer), own, layer};
  if (router_before_ == nullptr) {
    add(model::kRouterLogitsRole, layer,
        engine::routing_row(of_own, nullptr, experts_, routing_nulls_), engine::kRoutingTable);
    return;
  }
  RowsInput before(*router_before_);
  const engine::RoutedLogits of_before{routers_.at(layer_before_), before, layer_before_};
  add(model::kRouterLogitsRole, layer,
      engine::routing_row(of_own, &of_before, experts_, routing_nulls_), engine::kRoutingTable);
}

void TraceStatistics::end_layer(std::int32_t layer) {
  if (hidden_ != nullptr) {
    add_values(model::kHiddenRole, layer, *hidden_);
    hidden_.reset();
  }
  if (mlp_ != nullptr) {
    add_values(model::kMlpRole, layer, *mlp_);
    mlp_.reset();
  }
  if (router_ != nullptr) {
    router_->sync();
    add_router(layer);
  }
  store_->publish_part();
  if (router_ == nullptr) {
    return;
  }
  // A run that is killed before this layer counts as finished begins with it again, and needs the
  // one before.
  if (!settings_.folder.empty() && layer_two_before_ >= 0) {
    remove_file(router_path(layer_two_before_));
  }
  layer_two_before_ = std::exchange(layer_before_, layer);
  router_before_ = std::move(router_);
}

void TraceStatistics::finish(const LogitsFindings* findings) {
  if (settings_.logits && findings != nullptr && !is_done(row_number(model::kLogitsRole, -1))) {
    results::ResultRow row;
    row.index = row_number(model::kLogitsRole, -1);
    row.method = "float64";
    row.cells = results::empty_cells(kTraceTable);
    row.arrays.resize(kTraceArrays.size());
    row.status = MatrixStatus::kMeasured;
    const auto set = [&](std::size_t cell, double value) { row.cells[cell] = value; };
    set(trace_cell("tokens_left_out"), static_cast<double>(findings->left_out));
    if (findings->entropy.tokens() == 0) {
      row.status = MatrixStatus::kNotFinite;
      engine::add_reason(row, "no token has finite logits");
    } else {
      const auto entries = static_cast<double>(model_.vocabulary);
      const statistics::LossSummary losses = findings->losses.summary();
      set(trace_cell("top8_mass"), findings->top8_mass.mean().mean);
      set(trace_cell("top8_mass_null"), std::min(1.0, 8.0 / entries));
      set(trace_cell("output_entropy"), findings->entropy.mean().mean);
      set(trace_cell("output_entropy_null"), std::log(entries));
      set(trace_cell("loss"), losses.loss.mean);
      set(trace_cell("loss_null"), std::log(entries));
      set(trace_cell("loss_se"), losses.loss.error);
      set(trace_cell("perplexity"), losses.perplexity);
      set(trace_cell("predicted_tokens"), static_cast<double>(findings->losses.tokens()));
    }
    store_->add(std::move(row));
  }
  store_->publish_file();
}

}  // namespace vindex::commands
