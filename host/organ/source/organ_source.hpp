// Owns organ files as sources: a model has more of them than a process may have files open, so each
// is open while it is read, and a few stay open for what is read next; and opening a folder that
// was extracted as the model it was taken from.
#pragma once

#include "gguf_source.hpp"

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

/// The one tensor, called `name`, of a GGUF organ file, whose header's digest is set. Errors:
/// FormatError E-ORGAN-FILE for another file; those of gguf::read_header().
gguf::Tensor only_tensor(input::Shard& file, const std::string& name);

/// Adds a split of `parts` that lies in no file: its keys, held in memory. `where` names it in
/// messages.
GgufSplit& add_split(const gguf::KeySection& keys, const std::string& file_name,
                     const std::string& where, GgufParts& parts);

/// Errors: those of read_manifest(); ConfigurationError E-ORGAN-SAFETENSORS (78) for organs of a
/// safetensors model; FormatError E-ORGAN-FILE naming the organ file that holds another tensor than
/// the manifest says, E-ORGAN-SOURCE naming the file that is not what was extracted by reference.
GgufParts parts_of_organ_folder(const std::string& path, const OpenGgufOptions& options);

}  // namespace vindex::organ
