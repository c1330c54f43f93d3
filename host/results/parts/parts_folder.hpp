// Owns OUT.h5.parts/: its file names and what they promise.
//   run-<i>of<n>.h5                 the run of worker i: selection, tensors, texts; no outcomes
//   part-<i>of<n>-<seq>-<digest>.h5 rows published by worker i; digest = first 16 hex digits of the
//                                   file's SHA-256, since HDF5's own checksums cover data only
//   <i>of<n>.lock                   see run_lock.hpp
//   <i>of<n>.progress               see heartbeat.hpp
//   <i>of<n>.done                   see share_record.hpp
//   claims/<i>of<n>.lock            a share that a process has claimed (share_ledger.hpp)
// Where shares are claimed, the first four are called <host>-<process>of<n>, and a part has rows of
// one share.
#pragma once

#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::results {

std::string parts_folder(const std::string& path);  ///< "OUT.h5.parts"
std::string worker_tag(std::int32_t index, std::int32_t count);
/// Of this process, which claims shares of `count`.
std::string claimer_tag(std::int32_t count);
/// The number of a worker_tag() of `count`; nothing where it is of another count or a claimer's.
std::optional<std::int32_t> share_of_tag(const std::string& tag, std::int32_t count);
/// The count in any tag; 0 where it is none.
std::int32_t count_of_tag(const std::string& tag);
std::string claims_folder(const std::string& folder);

struct PartFiles {
  std::vector<std::string> runs;   ///< run descriptions, by name
  std::vector<std::string> parts;  ///< by name
  bool operator==(const PartFiles&) const = default;
};
/// What is in `folder`; nothing if it does not exist. Errors: SystemError.
PartFiles list_parts(const std::string& folder);

/// What is on disk of the run of results file `path` at one moment.
struct RunFiles {
  PartFiles files;
  bool has_file = false;
  bool operator==(const RunFiles&) const = default;
};
/// Errors: SystemError; MissingInputError E-RESULTS-MISSING where there is nothing.
RunFiles list_run(const std::string& path);

/// What `read()` returns. A run that is just ending removes its parts, and what was listed may be
/// gone when it is read: an error is believed once the files have stayed the same.
template <typename Read>
auto read_while_it_stays(const std::string& path, Read read) {
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    const RunFiles before = list_run(path);
    try {
      return read();
    } catch (const Error&) {
      if (attempt == kAttempts || list_run(path) == before) {
        throw;
      }
    }
  }
}

/// What a part's name says of its bytes: the first digits of their SHA-256.
std::string part_digest(std::span<const std::byte> bytes);
/// The same of what `path` holds. Errors: SystemError.
std::string part_digest_of_file(const std::string& path);

/// Errors: FormatError E-PART-DIGEST where the bytes of a part are not those that were written.
void verify_part(const std::string& path);

/// Number of a part of worker `tag` (0, 1, ...), or nothing where `path` is none of it.
std::optional<std::int64_t> part_sequence(const std::string& path, const std::string& tag);

/// Removes parts, run descriptions, records, heartbeats, claims and the folder itself if nothing
/// else is in it.
void remove_parts(const std::string& folder);

}  // namespace vindex::results
