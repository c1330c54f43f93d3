// Owns what commands with a results file do alike around their job: the run that begins, the lines
// that are said of it, the reader, and the description of the file. A command keeps what is its
// own: which models and rows, what decides their numbers, and the job.
//
// In order: open what is read; open_reader(); describe(), lines of the fingerprint, add_inputs(),
// complete(); lines for people; take_run().
#pragma once

#include "job_runner.hpp"

#include "backend/backend.hpp"
#include "core/json/json_document.hpp"
#include "engine/run_settings.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "results/runs/run_store.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::engine {

class JobFrame {
 public:
  /// A run of `settings`, which outlive the frame, begun now.
  explicit JobFrame(const RunSettings& settings);

  /// Adds a line for people. They are said once nothing refuses the run any more.
  void say(std::string line) { run_.messages.push_back(std::move(line)); }
  void say(const std::vector<std::string>& lines);
  /// Adds the warnings of a model; `side` stands before each where there are two.
  void say_warnings(const input::ModelFiles& files, const model::ModelIndex& index,
                    std::string_view side = "");

  /// The reader of the run, asked about every file of `models`; null ones are passed over.
  void open_reader(std::initializer_list<const input::ModelFiles*> models);

  /// Begins the description of what comes of `model` as given. What computes are `backends`, or
  /// the host with `host_threads`. The fingerprint begins with the numeric version.
  results::RunDescription& describe(results::FileSchema schema, const std::string& model,
                                    const std::string& title,
                                    const std::vector<std::unique_ptr<Backend>>& backends,
                                    std::int32_t host_threads = 0);
  /// Adds `files` to the fingerprint, `side` before each line, and to /run/inputs, as the member
  /// `name` where there are several. The entry, to be added to.
  Json& add_inputs(const input::ModelFiles& files, std::string_view name = "",
                   std::string_view side = "");
  /// What the command alone was given, and what it found out: /run/settings, /run/config.
  void complete(Json own_settings, Json config);
  Json& inputs() { return inputs_; }
  Json& settings_document() { return settings_document_; }
  Json& environment() { return environment_; }

  /// Memory of the budget that the caller holds while the run works.
  void reserve(std::uint64_t bytes) { run_.reserved_bytes = bytes; }

  /// What run_job() is asked.
  JobRun take_run();
  /// The description, for results that no job makes.
  results::RunDescription take_description();

 private:
  const RunSettings& settings_;
  JobRun run_;
  Json inputs_, settings_document_, environment_, config_;
};

}  // namespace vindex::engine
