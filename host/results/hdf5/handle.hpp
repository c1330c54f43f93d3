// Owns identifiers of libhdf5 that close themselves.
#pragma once

#include <cstdint>
#include <utility>

namespace vindex::results::h5 {

/// Owner of one library identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::int64_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();
  std::int64_t id() const { return id_; }

 private:
  std::int64_t id_ = -1;
};

}  // namespace vindex::results::h5
