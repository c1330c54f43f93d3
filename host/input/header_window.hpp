// Owns how the headers of a model's files are read side by side: how many threads, how many bytes
// of headers at once, and that what comes out does not depend on which was done first.
#pragma once

#include "model_store.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace vindex::input {

/// Bounds what headers that are read ahead may take together. Files are admitted in their order;
/// the bytes of one count until it and all before it are done, since what a file behind a bad one
/// makes is never used. One that exceeds the bound by itself is read alone.
class HeaderWindow {
 public:
  HeaderWindow(std::size_t count, std::uint64_t bytes)
      : reserved_bytes_(count, 0), done_(count), most_(bytes), failed_(count) {}

  /// Waits until file `i`, whose header takes `bytes`, may be read. False: an earlier one failed,
  /// so that nothing of this one is wanted.
  bool admit(std::size_t i, std::uint64_t bytes);
  /// File `i` needs nothing more, admitted or not.
  void leave(std::size_t i, bool failed);
  /// The first file that failed; the number of files where none did.
  std::size_t first_failed();

 private:
  void skip_done();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> reserved_bytes_;
  std::vector<bool> done_;
  std::uint64_t most_;
  std::uint64_t in_flight_ = 0;
  std::size_t next_ = 0;        ///< to be admitted
  std::size_t first_open_ = 0;  ///< all before it are done
  std::size_t failed_;
};

/// Asks for room for a header of `bytes`, once, before it is read.
using AskForRoom = std::function<void(std::uint64_t bytes)>;

/// How many headers to read side by side: as many as `store` wants, else `wanted`, else (0) one for
/// each usable core; at most 8 where the store does not say.
std::size_t header_threads(const ModelStore& store, std::int32_t wanted);

/// Calls read(i, ask) for every i < count from `threads` threads (at least one), then take(i) in
/// ascending order on the caller's. Where read(i) throws, take() is called
/// for all before i and the exception thrown here, as if one file had been read after the other.
void read_headers(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t i, const AskForRoom& ask)>& read,
                  const std::function<void(std::size_t i)>& take);

}  // namespace vindex::input
