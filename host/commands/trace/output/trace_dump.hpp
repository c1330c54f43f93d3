// Owns the arrays of a dump while a trace writes them: which there are, one file each (.npy or
// .safetensors), rows at their places, finished layer by layer. Names and shapes:
// model/dump/dump.hpp.
#pragma once

#include "commands/trace/tokens/trace_observer.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "core/files/atomic_file.hpp"
#include "decode/encoding/element_type.hpp"
#include "model/selection/selection.hpp"
#include "model/transformer/transformer.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::commands {

/// What is kept of a forward pass, and how.
struct DumpChoice {
  std::set<std::string> keep = {"hidden", "mlp", "router_logits"};
  model::Selection layers;  ///< its layers alone
  decode::ElementType type = decode::ElementType::kF32;
  bool safetensors = false;
};

/// Reads --keep, --layers, --dtype and --format; empty: the default. Errors: UsageError E-KEEP,
/// E-SELECTION, E-DTYPE (bf16 is a type of safetensors alone).
DumpChoice dump_choice(const std::string& keep, const std::string& layers, const std::string& type,
                       const std::string& format);

/// One array of a dump that will be written.
struct DumpArrayPlan {
  std::string name;  ///< "hidden.3"
  std::string role;
  std::int32_t layer = -1;
  std::int64_t rows = 0, cols = 0;  ///< cols 0: a vector
  decode::ElementType type = decode::ElementType::kF32;
  std::string file;         ///< "hidden.3.npy"
  std::uint64_t bytes = 0;  ///< of the elements
};

/// The arrays of `choice` for `tokens` tokens of `transformer`, token_ids and prompt first. Errors:
/// UsageError E-SELECTION where the layers name none of the model's; ConfigurationError E-KEEP
/// where nothing of what is to be kept is there.
std::vector<DumpArrayPlan> plan_dump(const DumpChoice& choice,
                                     const model::Transformer& transformer, std::int64_t tokens);

/// What stands before the elements of the arrays of `plan` in one .safetensors file, in which they
/// lie one after the other; `rule`: of routers, among the metadata
/// (model/routers/carried_rule.hpp). Source: safetensors README.
std::string safetensors_header(std::span<const DumpArrayPlan> plan,
                               const std::string& rule = std::string());

/// One array of float32 given, or of int64.
class DumpArray {
 public:
  /// Makes `folder`/`plan.file` with its header; a file that lies there is replaced. Messages name
  /// `shown`/`plan.file`. Errors: those of AtomicFile.
  DumpArray(const DumpArrayPlan& plan, const std::string& folder, const std::string& shown);
  /// Columns [first_col, first_col + cols) of rows [first, first + rows), from `values` [rows,
  /// cols]. Errors: SystemError E-OUTPUT-WRITE (74); ConfigurationError E-DUMP-RANGE (78) for a
  /// finite value that float16 does not hold.
  void write(std::int64_t first, std::int64_t rows, std::int64_t first_col, std::int64_t cols,
             const float* values);
  void write(std::int64_t first, std::span<const std::int64_t> values);
  /// Every byte is on the disk at the return, and the file stays.
  void finish();

 private:
  void encode(std::span<const float> values, std::vector<std::byte>& bytes) const;

  DumpArrayPlan plan_;
  AtomicFile file_;
  std::uint64_t data_ = 0;  ///< where the elements begin
  std::vector<std::byte> encoded_;
};

/// Writes what it sees of the pass.
class DumpWriter final : public TraceObserver {
 public:
  /// Arrays grow in `folder`; messages name `shown`. All must outlive it. `rule`: of routers, as
  /// model::carried_rule_text(); empty: none.
  DumpWriter(std::vector<DumpArrayPlan> plan, const TracePrompts& prompts, std::string folder,
             std::string shown, std::string rule = std::string());

  /// Files of arrays that are not those of layers before `layer` are removed. Errors: FormatError
  /// E-TRACE-STATE (65) where one of those is not there.
  void begin(std::int32_t layer) override;
  bool wants_hidden(std::int32_t layer) const override { return has("hidden", layer); }
  bool wants_mlp(std::int32_t layer) const override { return has("mlp", layer); }
  bool wants_router(std::int32_t layer) const override { return has("router_logits", layer); }
  bool wants_logits() const override { return has("logits", -1); }
  void hidden(const TraceBlock& block) override { write("hidden", block); }
  void mlp(const TraceBlock& block) override { write("mlp", block); }
  void router(const TraceBlock& logits,
              std::span<const statistics::RoutedToken> /*routed*/) override {
    write("router_logits", logits);
  }
  void logits(const LogitsTile& tile) override;
  void end_layer(std::int32_t layer) override;
  /// Behind the last layer and the logits: token_ids and prompt; everything is durable at the
  /// return.
  void finish();

  /// Bytes of all arrays with their headers, about.
  std::uint64_t bytes() const;

 private:
  const DumpArrayPlan* find(std::string_view role, std::int32_t layer) const;
  bool has(std::string_view role, std::int32_t layer) const { return find(role, layer) != nullptr; }
  DumpArray& array(std::string_view role, std::int32_t layer);
  void write(std::string_view role, const TraceBlock& block);
  void finish_open();

  std::vector<DumpArrayPlan> plan_;
  const TracePrompts& prompts_;
  std::string folder_, shown_, rule_;
  std::map<std::string, std::unique_ptr<DumpArray>> open_;  ///< by name
};

}  // namespace vindex::commands
