// Owns the list of kinds of files: a line for each job that writes one.
#include "results/schema/schema.hpp"

#include <array>

namespace vindex::commands {

results::Schema spectra_schema();
results::Schema compare_schema();
results::Schema experts_schema();
results::Schema cka_schema();
results::Schema activations_schema();
results::Schema routing_schema();
results::Schema trace_schema();
results::Schema gate_vectors_schema();

}  // namespace vindex::commands

namespace vindex::results {

std::span<const Schema> schemas() {
  static const std::array all = {commands::spectra_schema(),     commands::compare_schema(),
                                 commands::experts_schema(),     commands::cka_schema(),
                                 commands::activations_schema(), commands::routing_schema(),
                                 commands::trace_schema(),       commands::gate_vectors_schema()};
  return all;
}

}  // namespace vindex::results
