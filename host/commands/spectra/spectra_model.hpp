// Owns opening what `vindex measure` reads: a model as far as it is selected and drawn, what weighs
// its columns, copies of its remote files; and the back ends that measure it.
#pragma once

#include "spectra_settings.hpp"

#include "engine/devices/backends.hpp"
#include "engine/run/opening.hpp"
#include "input/stores/shard_copies.hpp"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::commands {

/// A selected model, whose derived rows stand behind those that they are derived from.
struct SpectraModel : engine::SelectedModel {
  std::shared_ptr<input::ShardCopies> copies;  ///< with settings.copies.disk_budget
  std::int64_t before_sample = 0;  ///< matrices selected before settings.sample left some out
  std::shared_ptr<const model::ImportanceMatrix> importance;  ///< with settings.imatrix
};

/// Opens, selects, draws, and adds the derived rows that the settings ask for. `stop`: of waiting
/// for a server, now and while it is read (input::open_store()). Errors: those of
/// input::open_model(), settings.open_files, engine::select_of() and
/// model::open_importance_matrix().
SpectraModel open_spectra_model(const SpectraSettings& settings, const std::stop_token& stop = {});

/// engine::open_backends() of what engine::open_devices() gave; the note also says what products of
/// factors are made with.
std::vector<std::unique_ptr<Backend>> open_spectra_backends(const SpectraSettings& settings,
                                                            engine::OpenedDevices devices,
                                                            std::string& note);

}  // namespace vindex::commands
