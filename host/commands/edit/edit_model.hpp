// Owns an edit of a model from settings to files: which matrices, which factors, what it did, and
// the outputs: a model with the tensors touched encoded again and every other byte copied, or a
// LoRA adapter; a patch beside either. All is computed before anything is written.
#pragma once

#include "matrix_edit.hpp"
#include "patch.hpp"

#include "backend/backend.hpp"
#include "engine/run/progress.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::edit {

enum class EditVerb : std::uint8_t { kDelete, kInsert, kMemit, kApply };
std::string_view verb_name(EditVerb verb);

/// What `delete` takes away.
struct DirectionChoice {
  enum class Kind : std::uint8_t { kFile, kFeature, kSingular };
  Kind kind = Kind::kFile;
  std::string file;         ///< .npy
  std::int64_t number = 0;  ///< of the feature or the singular vector, from 0
};

/// "v.npy", "feature 12", "singular 0". Errors: UsageError E-EDIT-DIRECTION.
DirectionChoice parse_direction(const std::string& text);

struct EditSettings {
  EditVerb verb = EditVerb::kDelete;
  std::string model, model_config;
  std::string tensor;                 ///< logical name
  std::string tensors, layers;        ///< --tensors REGEX, --layers: several (delete)
  std::optional<std::int32_t> slice;  ///< of a stack
  bool every_slice = false;
  DirectionChoice direction;
  /// Of `delete`; without it the right one, where the matrix is not square.
  std::optional<Side> side;
  double alpha = 1.0;        ///< of `delete`, and what `apply` multiplies with
  std::string key, value;    ///< insert
  std::string keys, values;  ///< memit
  double ridge = 1e-4;
  std::string patch;
  std::string probe;
  std::string covariance;  ///< of inputs: what `memit` solves with, and what is watched
  std::string output;      ///< empty: no model, no adapter
  bool as_lora = false;
  std::string save_patch;
  bool replace = false;  ///< files that are there
  bool force = false;    ///< a patch of another base, an adapter that is more than factors
  bool accept_unknown_base = false;  ///< a patch that does not say which weights it was made from
  /// What the caller writes when the edit is done: held apart from everything read and written
  /// here.
  std::string report;
  std::uint64_t ram_budget = 0;
  std::int32_t threads = 0;
  std::string program;  ///< for what is written
  std::stop_token stop = {};
  /// Opened where singular vectors are needed.
  std::function<std::unique_ptr<Backend>()> backend;
  std::function<void(const engine::ProgressSnapshot&)> progress;
};

/// What became of one matrix.
struct EditedMatrix {
  PatchEntry entry;  ///< factors as they were applied
  std::string encoding;
  bool transposed = false;
  std::string direction;  ///< "singular 0, s = 1.25"; empty: none
  /// Of a patch: its weights are those that it was "made from" or that it "left", "other" ones, or
  /// "unknown" where it has no digest. Empty: no patch.
  std::string base;
  EditSpectrum spectrum;
  MatrixChange change;
  /// Share of norm^2 that a deletion with alpha 1 takes, and what a random direction would lose.
  std::optional<double> share, share_null;
  std::optional<MemitCondition> condition;
  bool lost = false;  ///< W-EDIT-LOST
};

struct EditResult {
  EditSettings settings;
  std::string patch_kind;  ///< of `apply`
  bool encoded = false;    ///< figures are those of weights as a model holds them
  std::int64_t probe_count = 0;
  std::vector<EditedMatrix> matrices;
  std::vector<std::string> files;  ///< written, without their folder
  std::vector<Warning> warnings;
  bool stopped = false;  ///< nothing was written
};

/// Errors: UsageError (64) E-TENSOR, E-SLICE, E-EDIT-*, E-OUTPUT-KIND, E-USAGE for numbers that are
/// not finite; FormatError (65) for arrays and patches that are malformed or do not fit,
/// E-PATCH-TENSOR for a patch of a matrix that is not there; OutputError (73) E-OUTPUT-SOURCE for
/// an output that is read here; ConfigurationError (78) E-ENCODE-TYPE for an encoding that cannot
/// be written, E-PATCH-BASE for a patch of other or unknown weights, E-PATCH-SHAPE,
/// E-EDIT-SINGULAR, E-BUDGET; those of open_model(), index_model(), rewrite_model(), Backend.
EditResult edit_model(const EditSettings& settings);

/// The document "vindex-edit/1" (docs/commands/edit.md).
std::string edit_json(const EditResult& result);

/// For people, within `width` columns.
std::string edit_text(const EditResult& result, std::size_t width);

}  // namespace vindex::edit
