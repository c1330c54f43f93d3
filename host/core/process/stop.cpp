// Owns the exception that ends work under way.
#include "stop.hpp"

namespace vindex {

void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Stopped{};
  }
}

}  // namespace vindex
