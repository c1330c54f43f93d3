// Owns which files the export `phase-json` is made of.
#pragma once

#include <string>

namespace vindex::report {

/// Files of other kinds that the export `phase-json` joins with the one it is given; empty: none.
struct PhaseInputs {
  std::string activations = {}, cka = {}, routing = {};
  bool empty() const { return activations.empty() && cka.empty() && routing.empty(); }
};

}  // namespace vindex::report
