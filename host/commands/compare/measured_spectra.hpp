// Owns what a job takes from a results file of spectra: of each row of /matrix/ the statistics that
// pairs show side by side, and its singular values.
#pragma once

#include "pair_cells.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands {

struct MeasuredSpectrum {
  std::array<double, kPairMetrics.size()> values = {}, nulls = {};
  std::int64_t row = -1;  ///< of the file
  bool whole = false;     ///< all singular values are stored
};

/// An open results file. Thread-safe.
class MeasuredSpectra {
 public:
  /// Errors: MissingInputError, SystemError; FormatError as ResultsReader, also where it is of
  /// another schema or a part of a run.
  explicit MeasuredSpectra(const std::string& path);
  ~MeasuredSpectra();

  /// What the rows were measured from and how: RunDescription::fingerprint.
  const std::vector<std::pair<std::string, std::string>>& fingerprint() const;
  /// Of all that find() gives, hexadecimal.
  const std::string& digest() const;
  /// The measured row of matrix (`tensor`, `slice`), or null.
  const MeasuredSpectrum* find(const std::string& tensor, std::int32_t slice) const;
  /// Its singular values, descending. Errors: FormatError.
  std::vector<double> sigma(const MeasuredSpectrum& spectrum) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vindex::commands
