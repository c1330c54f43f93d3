// Owns what a results file says of its run as a whole, in the form that is stored: the run's
// description without its matrices, names safe to store, tensors flattened.
#pragma once

#include "run_description.hpp"

#include "results/rows/result_row.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::results {

struct FileDescription {
  FileSchema schema = FileSchema::kResults;
  std::string model, mode, backend, title, history;
  bool store_spectra = true;
  std::int32_t sign_flip_draws = 0;
  std::int32_t vectors = 0;
  bool sampled = false;     ///< RunDescription::sampled
  Fingerprint fingerprint;  ///< with the lines of the results layer (spectra, vectors, sign flip)
  std::string command, settings, inputs, environment, config;
  std::vector<TensorEntry> tensors;

  // Of kCompare, the first of kCka too.
  std::string other_model;
  bool spectra_joined = false;
  std::vector<UnpairedMatrix> unpaired;

  // Of kinds without spectra.
  std::map<std::string, ScaleValues> scales;
  std::vector<std::string> optional_columns;
  std::vector<RunAttribute> attributes;

  bool fast() const { return mode == "fast"; }
};

FileDescription describe(const RunDescription& run);

/// What the name of a fingerprint line begins with that says what derived rows are of: a run
/// without them neither needs nor contradicts it.
inline constexpr std::string_view kDerivedLine = "derived.";

/// Adds to `lines` the derived lines of `found` that it lacks: rows of earlier runs stay in a file.
void keep_derived_lines(Fingerprint& lines, const Fingerprint& found);

/// Throws ConfigurationError E-RESUME-FINGERPRINT naming the first line in which `found` (in file
/// `path`) differs from `wanted`.
void require_same_fingerprint(const Fingerprint& wanted, const Fingerprint& found,
                              const std::string& path, const std::string& advice);

}  // namespace vindex::results
