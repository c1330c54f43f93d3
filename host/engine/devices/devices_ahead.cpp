// Owns opening devices on a thread of its own.
#include "devices_ahead.hpp"

#include "core/files/path_kind.hpp"
#include "core/process/parallel.hpp"

#include <utility>

namespace vindex::engine {

namespace {

bool seems_there(const std::string& model) {
  return model.find("://") != std::string::npos || path_kind(model) != PathKind::kAbsent;
}

}  // namespace

DevicesAhead::DevicesAhead(const RunSettings& settings)
    : DevicesAhead([&settings] { return open_devices(settings); },
                   settings.backend != BackendChoice::kCpu && seems_there(settings.model)) {}

DevicesAhead::DevicesAhead(Open open, bool at_once) : open_(std::move(open)) {
  if (at_once) {
    (void)start_thread(thread_, [this] {
      try {
        opened_ = open_();
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  }
}

OpenedDevices DevicesAhead::take() {
  if (thread_.empty()) {
    return open_();
  }
  thread_.clear();
  if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
  return std::move(opened_);
}

}  // namespace vindex::engine
