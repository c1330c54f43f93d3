// Owns the sink of a run without a file: what comes of its rows is the job's.
#pragma once

#include "results/runs/run_store.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::engine {

class DiscardStore final : public results::RunStore {
 public:
  explicit DiscardStore(std::int64_t rows) : done_(static_cast<std::size_t>(rows)) {}
  const std::vector<bool>& done() const override { return done_; }
  void add(results::ResultRow /*row*/) override {}
  void show_progress(const results::RunProgress& /*progress*/) override {}
  void set_environment(const std::string& /*json*/) override {}
  void publish_part() override {}
  void publish_file() override {}
  results::ShareState take_share(std::int32_t /*share*/) override {
    return results::ShareState::kTaken;
  }
  void finish_share(std::int32_t /*share*/) override {}

 private:
  std::vector<bool> done_;
};

}  // namespace vindex::engine
