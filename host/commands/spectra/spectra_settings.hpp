// Owns what `vindex measure` is asked for beside what every run is.
#pragma once

#include "engine/run_settings.hpp"
#include "input/model_files.hpp"
#include "model/experts/expert_sample.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace vindex::commands {

/// Copies of what is fetched of a remote model, kept until its results are stored.
struct RemoteCopies {
  std::uint64_t disk_budget = 0;  ///< bytes; 0: none are kept
  std::string folder = {};
};

struct SpectraSettings {
  engine::RunSettings run;
  /// Where set, what is drawn of every group of routed experts.
  std::optional<model::SampleChoice> sample = std::nullopt;
  /// Matrices are worked on in the order of their draw, the first of all groups before the second
  /// of any; needs `sample`.
  bool in_drawn_order = false;
  /// Matrices are read in the order of the files and of the bytes in them, each file once, whatever
  /// the order of the rows.
  bool in_file_order = false;
  model::IndexOptions indexing = {};
  std::string imatrix = {};  ///< importance matrix of --imatrix; empty: none
  bool store_spectra = true;
  /// Where set, samples are taken of the weights of every matrix and every 1-D tensor
  /// (statistics/spectrum/sample_angles.hpp), and this says what kind of tensor a name is of.
  std::function<std::string(std::string_view name)> class_of = nullptr;
  /// Where set, opens run.model instead of input::open_model(): a model in a form of its own.
  std::function<input::ModelFiles(const input::OpenOptions& options)> open_files = nullptr;
  RemoteCopies copies = {};
  /// The files are first read whole, and their SHA-256 compared with what is published.
  bool verify = false;
};

}  // namespace vindex::commands
