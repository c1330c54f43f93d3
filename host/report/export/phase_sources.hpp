// Owns the files that the documents of the export `phase-json` are made from, as read.
#pragma once

#include "export_input.hpp"

#include "results/view/results_view.hpp"

#include <optional>

namespace vindex::report {

/// At least one of them is there.
struct PhaseSources {
  const ExportInput* spectra = nullptr;
  std::optional<results::FileDescription> description = std::nullopt;  ///< of `spectra`
  std::optional<results::ResultsView> activations = std::nullopt;
  std::optional<results::ResultsView> cka = std::nullopt;
  std::optional<results::ResultsView> routing = std::nullopt;
};

}  // namespace vindex::report
