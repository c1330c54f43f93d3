// Owns a graft from opening to writing: the host everywhere, except the tensors that a request
// names, which come from the donor with their bytes as they are.
#pragma once

#include "graft_ancestry.hpp"
#include "graft_finding.hpp"
#include "graft_plan.hpp"

#include "decode/encoding/element_type.hpp"
#include "model/pairing/pairing.hpp"
#include "organ/source/organ_class.hpp"
#include "organ/writing/compose.hpp"

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

struct GraftSettings {
  std::string donor, host;                   ///< GGUF files, splits, or extracted folders
  std::string output;                        ///< a GGUF file, or a folder: means_organ_folder()
  std::string tool = {};                     ///< program and version, for a folder's manifest
  std::string types = "organ", layers, map;  ///< as the command line gives them
  std::string name;                          ///< general.name of the result; empty: made of both
  bool allow_missing = false;
  bool force = false;  ///< errors that are not of structure do not refuse
  bool dry_run = false;
  bool replace = false;           ///< files of the result's names may be replaced
  std::uint64_t shard_bytes = 0;  ///< 0: one file
  std::int32_t threads = 0;       ///< 0: by the machine
  std::stop_token stop = {};      ///< requested: nothing is left behind
};

struct GraftSide {
  std::string path, architecture, name;
  std::uint64_t tensors = 0, files = 0;
};

/// A tensor of the result that is the donor's.
struct GraftedTensor {
  std::string name, donor_name;
  OrganName organ;
  std::vector<std::uint64_t> dimensions;
  std::optional<decode::ElementType> host_type;  ///< nothing: it is added
  decode::ElementType donor_type = decode::ElementType::kF32;
  std::uint64_t bytes = 0;
};

enum class GraftOutcome : std::uint8_t { kWritten, kDryRun, kRefused, kStopped };
/// "written", "dry-run", "refused", "stopped".
std::string_view outcome_name(GraftOutcome outcome);

struct GraftReport {
  GraftSettings settings;
  GraftSide host, donor;
  GraftOutcome outcome = GraftOutcome::kRefused;
  std::vector<GraftedTensor> grafted;
  std::vector<std::string> dropped;
  std::vector<Refusal> refusals;
  std::vector<GraftFinding> findings;  ///< worst first
  std::vector<Likeness> likeness;
  ComposeReport written;  ///< empty unless kWritten
};

/// Plans, checks and, where nothing refuses and it is no dry run, writes. Refusals are a value, and
/// leave nothing behind. Errors: those of parse_graft_request(), plan_graft(), open_gguf() and
/// compose(); UsageError E-GRAFT-NOTHING where the request names no tensor of either model.
GraftReport graft_models(const GraftSettings& settings);

}  // namespace vindex::organ
