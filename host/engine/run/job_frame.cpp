// Owns how a command's run is described and begun, from its settings.
#include "job_frame.hpp"

#include "description_parts.hpp"
#include "opening.hpp"

#include <fmt/format.h>

#include <utility>

namespace vindex::engine {

JobFrame::JobFrame(const RunSettings& settings) : settings_(settings) {
  run_.output = settings.output;
  run_.worker = settings.worker;
  run_.restart = settings.restart;
  run_.ram_budget = settings.ram_budget;
  if (!settings.provenance.worker_source.empty()) {
    say(fmt::format("worker {} of {}, by {}", settings.worker.index, settings.worker.count,
                    settings.provenance.worker_source));
  }
}

void JobFrame::say(const std::vector<std::string>& lines) {
  run_.messages.insert(run_.messages.end(), lines.begin(), lines.end());
}

void JobFrame::say_warnings(const input::ModelFiles& files, const model::ModelIndex& index,
                            std::string_view side) {
  add_warnings(files, index, side, run_.messages);
}

void JobFrame::open_reader(std::initializer_list<const input::ModelFiles*> models) {
  run_.reader = engine::open_reader(settings_.reading, models);
}

results::RunDescription& JobFrame::describe(results::FileSchema schema, const std::string& model,
                                            const std::string& title,
                                            const std::vector<std::unique_ptr<Backend>>& backends,
                                            std::int32_t host_threads) {
  run_.description = begin_description(schema, model, title, settings_.provenance.command);
  run_.description.backend = backends.empty() ? "cpu" : backends.front()->info().name;
  environment_ = engine::environment(settings_, *run_.reader, backends, host_threads);
  return run_.description;
}

Json& JobFrame::add_inputs(const input::ModelFiles& files, std::string_view name,
                           std::string_view side) {
  Json& entry = name.empty() ? inputs_ : inputs_[name];
  entry = engine::add_inputs(files, side, run_.description);
  return entry;
}

void JobFrame::complete(Json own_settings, Json config) {
  settings_document_ = all_settings(std::move(own_settings), settings_);
  config_ = std::move(config);
}

results::RunDescription JobFrame::take_description() {
  results::RunDescription& run = run_.description;
  run.inputs_json = inputs_.dump(1);
  run.settings_json = settings_document_.dump(1);
  run.environment_json = environment_.dump(1);
  run.config_json = config_.dump(1);
  return std::move(run);
}

JobRun JobFrame::take_run() {
  run_.description = take_description();
  return std::move(run_);
}

}  // namespace vindex::engine
