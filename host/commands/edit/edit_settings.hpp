// Owns what an edit is asked for, and what became of it.
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

enum class EditKind : std::uint8_t { kDelete, kInsert, kMemit, kApply };
std::string_view kind_name(EditKind kind);

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
  EditKind kind = EditKind::kDelete;
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

}  // namespace vindex::edit
