// Owns noticing that a file is no longer the one whose header was read: asked once for what a unit
// of work has read, before its numbers are believed, since asking may cost a request.
#pragma once
#include "input/model_files.hpp"

#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace vindex::engine {

/// Thread-safe. `files` must outlive it.
class SourceWatch {
 public:
  explicit SourceWatch(const input::ModelFiles& files)
      : files_(files), shards_(files.shards.size()) {}

  const input::ModelFiles& files() const { return files_; }

  /// Bytes of `tensor` have been read, or may have been.
  void was_read(std::int32_t tensor);
  /// Null, or SystemError E-INPUT-CHANGED (74) where the file behind `tensor` is not the one that
  /// was opened, or what kept it from saying so. Asks it only where it was read since it was last
  /// asked.
  std::exception_ptr error(std::int32_t tensor);
  /// Throws the trouble of the first file in order that was read and has one.
  void require_unchanged();

 private:
  struct ShardState {
    bool read = false;
    std::exception_ptr error;
  };
  std::exception_ptr ask(std::size_t shard);

  const input::ModelFiles& files_;
  std::mutex asking_;  ///< nobody believes what somebody else is asking for
  std::mutex mutex_;
  std::vector<ShardState> shards_;
};

}  // namespace vindex::engine
