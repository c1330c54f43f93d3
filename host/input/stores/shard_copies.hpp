// Owns copies of remote files on a local disk, within a budget of bytes: what has been fetched is
// kept until the results made of it are stored, so that a run which was killed does not fetch it
// again, and a matrix that is read twice is fetched once. Only ranges that were asked for are kept.
#pragma once

#include "input/model_store.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace vindex::input {

/// Thread-safe.
class ShardCopies {
 public:
  /// In `folder`; at most `budget_bytes` on the disk at a time, those that other runs left there
  /// among them. Errors: throw_output_error() E-DISK-CACHE where it cannot be listed.
  ShardCopies(std::string folder, std::uint64_t budget_bytes);
  /// Before anything is read. Errors: throw_output_error() E-DISK-CACHE where it cannot be made.
  void make_folder() const;
  /// Removes the folder where nothing is left in it.
  ~ShardCopies();
  ShardCopies(const ShardCopies&) = delete;
  ShardCopies& operator=(const ShardCopies&) = delete;

  struct Statistics {
    std::uint64_t kept_bytes = 0;     ///< written, whatever became of them
    std::uint64_t reused_bytes = 0;   ///< read from copies instead of fetched
    std::uint64_t refused_bytes = 0;  ///< not kept: the budget was used up
    std::uint64_t most_bytes = 0;     ///< on the disk at a time
    std::string error;                ///< the last of a copy, one line; empty: none
  };
  Statistics statistics() const;
  const std::string& folder() const { return folder_; }

  /// Where the copy of `subject` lies: the address, length and version of a file.
  std::string path_of(const std::string& subject) const;
  /// Takes room for `bytes`; false where the budget has none.
  bool reserve(std::uint64_t bytes);
  /// Of what was reserved `kept` bytes were written.
  void settle(std::uint64_t reserved, std::uint64_t kept);
  /// `bytes` are gone from the disk.
  void freed(std::uint64_t bytes);
  void reused(std::uint64_t bytes);
  void note_error(std::string error);

 private:
  const std::string folder_;
  const std::uint64_t budget_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t used_bytes_ = 0;
  Statistics statistics_;
};

/// `store` with what is read of its files, behind their headers, kept in `copies`. Local files are
/// read as they are, and so is what has no version that would tell it from another.
std::shared_ptr<ModelStore> make_keeping_store(std::shared_ptr<ModelStore> store,
                                               std::shared_ptr<ShardCopies> copies);

/// One line for people on what a run kept and read again.
std::string copies_text(const ShardCopies& copies);

}  // namespace vindex::input
