// Owns organ files as sources: a model has more of them than a process may have files open, so each
// is open while it is read, and a few stay open for what is read next.
#pragma once

#include "input/local/file_source.hpp"

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace vindex::organ {

class OrganSource;

/// The organ files that were read last, open. Thread-safe.
class OpenOrgans {
 public:
  /// The file of `organ`, opened where it is not. Errors: those of input::open_input();
  /// SystemError E-INPUT-CHANGED (74) where it is not the one that was opened at first.
  std::shared_ptr<ByteSource> open(const OrganSource& organ);
  void add(const OrganSource& organ, std::shared_ptr<ByteSource> file);
  void forget(const OrganSource& organ);

 private:
  /// A process may usually have 1024 files open; every thread reads one.
  static constexpr std::size_t kMax = 128;
  std::mutex mutex_;
  /// The latest first.
  std::list<std::pair<const OrganSource*, std::shared_ptr<ByteSource>>> open_;
};

class OrganSource final : public ByteSource {
 public:
  /// Errors: those of input::open_input().
  OrganSource(std::string path, std::shared_ptr<OpenOrgans> open);
  ~OrganSource() override { open_->forget(*this); }
  OrganSource(const OrganSource&) = delete;
  OrganSource& operator=(const OrganSource&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return at_opening_.bytes; }
  SourceIdentity identity() const override;
  SourceIdentity identity_at_opening() const override { return at_opening_; }
  void read_many(std::span<const ReadRequest> requests) override;
  void header_is_read() override { opened()->header_is_read(); }
  /// Its file, which stays open as long as what is returned lives. Errors: those of
  /// OpenOrgans::open().
  std::shared_ptr<ByteSource> opened() const { return open_->open(*this); }

 private:
  std::string path_;
  std::string name_;
  SourceIdentity at_opening_;
  std::shared_ptr<OpenOrgans> open_;
};

}  // namespace vindex::organ
