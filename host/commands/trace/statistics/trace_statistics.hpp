// Owns the statistics of a forward pass (schema vindex-trace): gathered layer by layer, so that no
// activations are kept. Rows of one layer are held (in memory or in a file) until the layer ends,
// since thresholds and means must be known before values are counted; its numbers are then those of
// `vindex activations` and `vindex routing` on a dump of the same run. Of the residual stream the
// Gram matrix of the prompts' means stays, which linear CKA is made of.
#pragma once

#include "trace_logits.hpp"

#include "backend/backend.hpp"
#include "commands/token_tables/routing_row.hpp"
#include "commands/trace/tokens/token_rows.hpp"
#include "commands/trace/tokens/trace_observer.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "input/model_files.hpp"
#include "model/transformer/transformer.hpp"
#include "results/runs/run_store.hpp"
#include "results/schema/cell_table.hpp"
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::commands {

struct StatisticsSettings {
  std::string output;  ///< results file
  bool restart = false;
  bool logits = false;  ///< the pass makes logits: they get a row
  /// Effective ranks of tokens' covariances: by `backend`, where it is not null.
  Backend* backend = nullptr;
  std::int32_t threads = 1;
  std::uint64_t ram_budget = 0;  ///< bytes for the rows of one layer and for what is made of them
  /// Folder of the run, which is removed when it is finished: logits of the last routers stay there
  /// for a run that goes on. Empty: the run keeps nothing.
  std::string folder;
  std::string scratch;  ///< folder of files without a name
};

/// Adds to `description`, which says which model, prompts and settings it is, the rows and scales
/// of the statistics and what they were asked for.
void describe_statistics(const model::Transformer& model, const TracePrompts& prompts,
                         const StatisticsSettings& settings, results::RunDescription& description);

/// What it holds at most beside rows that do not fit.
std::uint64_t statistics_bytes(const model::Transformer& model, const TracePrompts& prompts);

class TraceStatistics final : public TraceObserver {
 public:
  /// Opens or resumes the file. `description`: of describe_statistics(). What is given outlives it.
  /// Errors: those of open_run_store(), of reading the routers' biases and of TokenRouter.
  TraceStatistics(StatisticsSettings settings, const model::Transformer& model,
                  const input::ModelFiles& files, const TracePrompts& prompts,
                  results::RunDescription description, std::stop_token stop);

  /// Errors: ConfigurationError (78) E-TRACE-STATISTICS where rows of earlier layers are gone.
  void begin(std::int32_t layer) override;
  bool wants_hidden(std::int32_t) const override { return true; }
  bool wants_mlp(std::int32_t) const override { return true; }
  bool wants_router(std::int32_t) const override { return true; }
  void hidden(const TraceBlock& block) override;
  void mlp(const TraceBlock& block) override;
  void router(const TraceBlock& logits, std::span<const statistics::RoutedToken> routed) override;
  void end_layer(std::int32_t layer) override;
  /// Behind the last layer: the row of the logits where `findings` are there, and the file.
  void finish(const LogitsFindings* findings);

 private:
  std::unique_ptr<TokenRows> rows_of(std::int64_t width) const;
  std::unique_ptr<TokenRows> router_rows(std::int32_t layer, std::int64_t experts) const;
  std::string router_path(std::int32_t layer) const;
  std::int64_t row_number(std::string_view role, std::int32_t layer) const;
  bool is_done(std::int64_t row) const { return store_->done()[static_cast<std::size_t>(row)]; }
  void keep(std::unique_ptr<TokenRows>& rows, const TraceBlock& block);
  void add(std::string_view role, std::int32_t layer, const results::ResultRow& made,
           const results::CellTable& table);
  void add_values(std::string_view role, std::int32_t layer, TokenRows& rows);
  void add_router(std::int32_t layer);
  void add_gram(TokenRows& rows, results::ResultRow& row) const;

  StatisticsSettings settings_;
  const model::Transformer& model_;
  const TracePrompts& prompts_;
  std::stop_token stop_;
  std::vector<model::MatrixRecord> records_;  ///< of the rows, in the file's order
  std::int64_t experts_ = 0;                  ///< of the file: the most of any layer
  std::map<std::int32_t, engine::LayerRouter> routers_;
  std::unique_ptr<results::RunStore> store_;
  engine::RoutingNullCache routing_nulls_;
  statistics::NullCache nulls_;
  std::unique_ptr<TokenRows> hidden_, mlp_;
  std::unique_ptr<TokenRows> router_, router_before_;
  std::int32_t layer_before_ = -1;  ///< that router_before_ is of
  std::int32_t layer_two_before_ = -1;
};

}  // namespace vindex::commands
