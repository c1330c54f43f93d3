// Owns everything about a run that is no row, as a command hands it over: which kind of file it
// writes, what was asked for, and the matrices and tensors of the model.
#pragma once

#include "results/rows/result_row.hpp"
#include "statistics/scales/scale_figures.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vindex::results {

/// The kinds of file that are written, resumed, merged and validated in the same way.
enum class FileSchema : std::uint8_t {
  kResults,      ///< vindex-results: spectra of one model
  kCompare,      ///< vindex-compare: pairs of matrices of two models
  kExperts,      ///< vindex-experts: similarity of the experts of a layer
  kCka,          ///< vindex-cka: layers of one dump of activations beside those of another
  kActivations,  ///< vindex-activations: statistics of dumped activations, layer by layer
  kRouting,      ///< vindex-routing: where routers send tokens, layer by layer
  kTrace,        ///< vindex-trace: statistics of a forward pass, layer by layer
  kGateVectors,  ///< vindex-gate-vectors: the features of a model, to be searched without it
};

/// "name\nvalue" lines that must be equal for rows of two runs to go together.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// A matrix that has no partner, for /unpaired/.
struct UnpairedMatrix {
  std::string side;    ///< "a" or "b"
  std::string tensor;  ///< with its slice, as model::matrix_name()
  std::string reason;
};

/// An attribute of the root that says what was measured: permutations, tokens, a rule.
struct RunAttribute {
  std::string name;
  std::variant<std::int64_t, double, std::string> value;
};

/// What of a run that compares is nowhere else.
struct CompareDescription {
  std::string other_model;  ///< B as given (kCompare, kCka)
  bool spectra = false;     ///< columns of both sides' spectra
  /// Per matrix of RunDescription::matrices, which are those of A: tensor_b and encoding_b.
  std::vector<std::pair<std::string, std::string>> partners;
  std::vector<UnpairedMatrix> unpaired;
};

/// What is reported of a tensor of any rank, beside model::TensorRecord, where a run takes samples.
struct TensorSample {
  std::string organ_class;               ///< by its name
  statistics::SampleAngles angles;       ///< of 1-D tensors; matrices have theirs in their rows
  std::string missing = {};              ///< why such a tensor has none
  statistics::ScaleFigures scales = {};  ///< of 1-D tensors too
  std::string scales_missing = {};       ///< why a figure of those is NaN
  BlockScales block_scales = {};         ///< of float8 tensors
};

/// Everything about a run that is not a row. JSON members are whole documents.
struct RunDescription {
  FileSchema schema = FileSchema::kResults;
  std::string model;    ///< as given
  std::string mode;     ///< "fast", "default", "strict"
  std::string backend;  ///< "cpu" or "cuda"
  bool store_spectra = true;
  std::int32_t sign_flip_draws = 0;
  std::int32_t vectors = 0;
  /// What must be equal for old rows to be reused, as "name\nvalue" lines; a difference is exit 78
  /// naming the line. Lines called "derived...." only where both sides have them.
  Fingerprint fingerprint;
  std::string command_json, settings_json, inputs_json, environment_json, config_json;
  std::string title, history;
  /// The selected ones in row order, and after them what is derived from them, table by table.
  std::vector<model::MatrixRecord> matrices;
  /// All of the model (stored names in `tensor_stored_names`).
  std::vector<model::TensorRecord> tensors;
  std::vector<std::string> tensor_stored_names;  ///< per tensor record, space-separated
  /// Rows and tensors carry the angles of a sample: columns theta_seed, ... of /matrix/ and
  /// /tensor/.
  bool sampled = false;
  std::vector<TensorSample> tensor_samples = {};  ///< per tensor record, with `sampled`
  CompareDescription compare;                     ///< of kCompare
  /// Of a schema with a CellTable: the values of every scale of it, by name. Rows of earlier runs
  /// are reused where these, the optional columns and the fingerprint are the same.
  std::map<std::string, ScaleValues> scales = {};
  std::vector<std::string> optional_columns = {};  ///< those of Presence::kOptional that rows have
  std::vector<RunAttribute> attributes = {};
};

}  // namespace vindex::results
