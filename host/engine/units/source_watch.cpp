// Owns the files that a unit has read, and the one question whether any of them changed.
#include "source_watch.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cstddef>

namespace vindex::engine {

namespace {

void require_same(const input::Shard& shard) {
  const SourceIdentity now = shard.source->identity();
  if (now != shard.identity) {
    throw SystemError(
        "E-INPUT-CHANGED", 0,
        fmt::format(
            "{}: the file was changed, replaced or removed while it was read (size {} then, {} "
            "now); measure again when nothing writes to it",
            shard.source->name(), shard.identity.bytes, now.bytes));
  }
}

std::size_t shard_of(const input::ModelFiles& files, std::int32_t tensor) {
  return static_cast<std::size_t>(files.tensors.at(static_cast<std::size_t>(tensor)).shard);
}

}  // namespace

void SourceWatch::was_read(std::int32_t tensor) {
  const std::lock_guard lock(mutex_);
  shards_.at(shard_of(files_, tensor)).read = true;
}

std::exception_ptr SourceWatch::error(std::int32_t tensor) {
  const std::lock_guard lock(asking_);
  return ask(shard_of(files_, tensor));
}

void SourceWatch::require_unchanged() {
  const std::lock_guard lock(asking_);
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (const std::exception_ptr error = ask(shard); error != nullptr) {
      std::rethrow_exception(error);
    }
  }
}

std::exception_ptr SourceWatch::ask(std::size_t shard) {
  {
    const std::lock_guard lock(mutex_);
    ShardState& state = shards_.at(shard);
    if (!state.read || state.error != nullptr) {
      return state.error;
    }
    state.read = false;  // what is read from here on is asked for next time
  }
  std::exception_ptr error;
  try {
    require_same(files_.shards[shard]);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  shards_[shard].error = error;
  return error;
}

}  // namespace vindex::engine
