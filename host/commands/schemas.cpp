// Owns the list of kinds of files: a line for each job that writes one.
#include "results/tables/schema.hpp"

#include <array>

namespace vindex::jobs {

results::Schema spectra_schema();
results::Schema compare_schema();
results::Schema experts_schema();
results::Schema cka_schema();
results::Schema activations_schema();
results::Schema routing_schema();
results::Schema trace_schema();
results::Schema gate_vectors_schema();

}  // namespace vindex::jobs

namespace vindex::results {

std::span<const Schema> schemas() {
  static const std::array all = {jobs::spectra_schema(),     jobs::compare_schema(),
                                 jobs::experts_schema(),     jobs::cka_schema(),
                                 jobs::activations_schema(), jobs::routing_schema(),
                                 jobs::trace_schema(),       jobs::gate_vectors_schema()};
  return all;
}

}  // namespace vindex::results
