// Owns the purification of a GGUF model: which matrices are tried, what becomes of each, and the
// model that is written with those that changed. Every other tensor keeps its bytes.
//
// A tensor is its matrices: rows x cols of its first two dimensions, one for each index of the
// others (experts), purified one by one. The work is done before anything is written: new bytes
// wait in scratch files without names, so that a run which ends early leaves nothing.
#pragma once

#include "purify_methods.hpp"

#include "backend/backend.hpp"
#include "decode/encoding/element_type.hpp"
#include "engine/run/progress.hpp"
#include "model/selection/selection.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/source/organ_class.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::write {
class ScratchFile;
}

namespace vindex::purify {

/// The type of GGUF called `name`; `encoded`: one that weights can be stored in anew. `option` is
/// what gave the name. Errors: UsageError E-PURIFY-TYPE.
decode::ElementType purify_type(const std::string& name, const char* option, bool encoded);

struct PurifyOptions {
  PurifyRule rule = {};
  GateRules gate = {};
  /// Embeddings, routers, norms and adapters are left alone unless they stand here.
  std::set<organ::OrganClass> classes = {organ::OrganClass::kOrgan, organ::OrganClass::kSkeleton,
                                         organ::OrganClass::kOther};
  model::Selection selection = {};  ///< layers (blocks) and names
  /// How changed tensors are stored; nothing: as they were.
  std::optional<decode::ElementType> out_type = {};
  bool encode = true;         ///< how weights would be stored matters: false for factors alone
  bool keep_weights = true;   ///< make new bytes: false in a dry run
  bool keep_factors = false;  ///< make low-rank pairs
  decode::ElementType factor_type = decode::ElementType::kF32;  ///< F32, F16 or BF16
  std::string scratch_folder = ".";                             ///< of files without names
  std::uint64_t ram_budget = 0;                                 ///< bytes
  std::stop_token stop = {};
  std::function<void(const engine::ProgressSnapshot&)> progress = {};
};

/// What became of one matrix.
struct PurifiedMatrix {
  std::string outcome;  ///< one word or two: "purified", "no rank", "no bulk", "over cap", ...
  std::string reason;   ///< why it is untouched, or what was overridden; empty: purified
  bool changed = false;
  std::optional<GateVerdict> verdict = {};  ///< nothing: it did not come to the gate
  std::optional<NoiseFit> fit = {};
  std::int64_t rank = -1;                           ///< of W' under a spectral method; -1: full
  std::optional<ChangeStatistics> change = {};      ///< W to W'
  double norm_squared = 0.0;                        ///< sum of squared weights
  double residual = 0.0;                            ///< of the singular vectors, over s_1
  std::optional<double> requantisation_error = {};  ///< |Q(W') - W'| / |W'| as stored
  std::optional<double> written_change = {};        ///< |Q(W') - W| / |W|: what the file holds
  /// |Q(W) - W| / |W|: what storing W itself in the new type costs; 0 where the type stays.
  double nothing_error = 0.0;
  bool storable = true;                            ///< the new type can hold W itself
  bool visible = false;                            ///< |W' - W| exceeds |Q(W') - W'|
  std::uint64_t codes_at = 0, a_at = 0, b_at = 0;  ///< where they wait
};

struct PurifiedTensor {
  std::size_t tensor = 0;  ///< of the source
  organ::OrganClass organ_class = organ::OrganClass::kOther;
  std::int32_t block = -1;
  decode::ElementType out_type = decode::ElementType::kF32;
  std::int64_t rows = 0, cols = 0;
  std::string skipped = {};  ///< why none of its matrices was tried; empty: they were
  std::vector<PurifiedMatrix> matrices = {};
  /// noise_kept() of this shape: the null of 1 - energy removed. Nothing: not tried, or stopped.
  std::optional<double> noise_kept = {};
  bool changed() const;
};

struct PurifyResult {
  PurifyOptions options = {};
  std::vector<PurifiedTensor> tensors = {};  ///< every tensor of the selection's names and layers
  bool stopped = false;
  std::shared_ptr<write::ScratchFile> weights = {};
  std::shared_ptr<write::ScratchFile> factors = {};
  std::size_t changed_count() const;  ///< tensors
};

/// Judges and purifies every matrix of the selection, as many at a time as the back end and the
/// budget allow. A matrix that cannot be is left alone with its reason. Errors: ConfigurationError
/// E-BUDGET (78) naming the least budget; those of ByteSource and Backend; SystemError E-SCRATCH
/// (74).
PurifyResult purify_model(const organ::GgufSource& source, Backend& backend,
                          const PurifyOptions& options);

/// Where results go. Empty: not written.
struct PurifyTargets {
  std::string output = {};        ///< the model, or a folder: organ::means_organ_folder()
  std::string factors = {};       ///< low-rank pairs
  std::uint64_t shard_bytes = 0;  ///< 0: one file
  bool replace = false;           ///< of files that are there
  std::string tool = {};          ///< program and version, for a folder's manifest
};

/// Before the work: errors of targets that are files of the source (OutputError E-OUTPUT-SOURCE) or
/// there already (E-OUTPUT-EXISTS without `replace`).
void require_free_targets(const organ::GgufSource& source, const PurifyTargets& targets);

/// Writes the model with what changed; where nothing did, its keys are the source's too. Factors:
/// NAME.a [rank, cols] and NAME.b [rows, rank] of every purified matrix (NAME#K of the K-th of a
/// stack) as safetensors, W' = b a. All of it appears, or nothing. False where a stop was asked
/// for. Errors: those of compose() and SafetensorsWriter; expects() where what is asked for was not
/// kept.
bool write_results(const organ::GgufSource& source, const PurifyResult& result,
                   const PurifyTargets& targets);

/// The document "organ-purify/1" (docs/files/organ-schemas.md).
std::string purify_json(const organ::GgufSource& source, const PurifyResult& result,
                        const PurifyTargets& targets);

/// A table for people, a line for each tensor that was tried, within `width` columns.
std::string purify_text(const organ::GgufSource& source, const PurifyResult& result,
                        const PurifyTargets& targets, std::size_t width);

}  // namespace vindex::purify
