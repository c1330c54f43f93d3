// Owns the copy of one remote file on a local disk: the ranges of it that have been read, so that
// what a killed run had fetched is not fetched again.
//
// Layout, integers little-endian:
//   "vindex-copy/1\n"  what it is a copy of, as text, one line  '\n'
//   then records, appended as ranges arrive:
//     offset (u64)  bytes (u64)  SHA-256 of these 16 bytes and the payload (32)  payload
// The file ends behind its last whole record: what a killed process left half-written is cut off.
// Records of another process are believed once their digest has been checked.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace vindex::input {

/// Thread-safe. Never throws for a disk that fails: it is a copy, the range is fetched again, and
/// error() says so.
class ShardCopy {
 public:
  /// Of the file described by `subject` (one line), at `path`; what lies there of an earlier
  /// process is continued, unless another one is using it: error() says so and nothing is kept.
  ShardCopy(std::string path, const std::string& subject);
  ~ShardCopy();
  ShardCopy(const ShardCopy&) = delete;
  ShardCopy& operator=(const ShardCopy&) = delete;

  /// Fills `request` where all of it is here.
  bool read(const ReadRequest& request);
  /// Keeps `bytes` from `offset` on as far as they are not here. Returns by how much the file grew.
  std::uint64_t add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// What `bytes` take on the disk where none of them is here.
  static std::uint64_t record_bytes(std::uint64_t bytes);
  /// On the disk now.
  std::uint64_t file_bytes() const;
  /// Removes the file; nothing is kept from here on.
  void remove();
  /// Why nothing, or less, is kept; one line, empty where all is well.
  std::string error() const;

 private:
  struct Record {
    std::uint64_t bytes = 0;
    std::uint64_t at = 0;  ///< of its payload in the file
    bool is_ours = false;  ///< written, or its digest checked, by this process
  };
  using Records = std::map<std::uint64_t, Record>;  ///< by offset; they do not overlap

  void open(const std::string& heading);
  bool write_heading(const std::string& heading);
  void read_records(std::uint64_t from, std::uint64_t file_bytes);
  Records::iterator covering(std::uint64_t offset);
  bool covers(std::uint64_t offset, std::uint64_t bytes);
  bool is_intact(std::uint64_t offset, Record& record);
  void give_up(const std::string& why, int error);
  void close_file();

  const std::string path_;
  mutable std::mutex mutex_;
  int descriptor_ = -1;
  std::uint64_t end_ = 0;
  Records records_;
  std::string error_;
};

}  // namespace vindex::input
