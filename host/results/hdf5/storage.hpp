// Owns the bytes under an HDF5 file: memory or a descriptor, behind a driver of our own
// (storage_driver.hpp). libhdf5
// may crash when a write fails under it (a full disk shows only when chunks are flushed on close),
// so a failed write is remembered here, the library sees success, and the caller asks
// for the failure afterwards. No file locks, no environment variables, no paths reach the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace vindex::results {

/// Bytes that the driver reads and writes. Reads beyond the end give zeros, as the library expects.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual std::uint64_t size() const = 0;
  /// False on an I/O error.
  virtual bool read(std::uint64_t offset, std::span<std::byte> out) noexcept = 0;
  virtual bool write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept = 0;
  virtual bool resize(std::uint64_t size) noexcept = 0;
  /// Throws the first failure that the library did not see.
  virtual void rethrow_failure() const {}
};

/// A whole file in memory.
class MemoryStorage final : public Storage {
 public:
  MemoryStorage() = default;
  explicit MemoryStorage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  bool read(std::uint64_t offset, std::span<std::byte> out) noexcept override;
  bool write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept override;
  bool resize(std::uint64_t size) noexcept override;
  std::span<const std::byte> bytes() const { return bytes_; }
  /// About `bytes` will be written: they are not moved while the file grows up to there. A hint;
  /// where there is no memory for it, writing says so.
  void expect(std::uint64_t bytes) noexcept;

 private:
  std::vector<std::byte> bytes_;
};

/// A file by descriptor.
class FileStorage final : public Storage {
 public:
  /// Opens `path` for reading. Errors: MissingInputError, SystemError.
  static FileStorage open(const std::string& path);
  /// An empty file open as `descriptor` for reading and writing, closed by its opener;
  /// `path` is for messages.
  static FileStorage borrow(int descriptor, std::string path);
  FileStorage(FileStorage&& other) noexcept;
  FileStorage& operator=(FileStorage&&) = delete;
  FileStorage(const FileStorage&) = delete;
  ~FileStorage() override;

  std::uint64_t size() const override { return size_; }
  bool read(std::uint64_t offset, std::span<std::byte> out) noexcept override;
  bool write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept override;
  bool resize(std::uint64_t size) noexcept override;
  void rethrow_failure() const override;

 private:
  FileStorage(int descriptor, std::string path, bool owned);
  bool read_file(std::uint64_t offset, std::span<std::byte> out) noexcept;

  int descriptor_ = -1;
  bool owned_ = true;  ///< the descriptor is closed here
  std::string path_;
  std::uint64_t size_ = 0;
  int write_error_ = 0;
  int read_error_ = 0;
  /// What could not be written: the library may read it back before the caller stops it.
  std::map<std::uint64_t, std::vector<std::byte>> unwritten_;
};

}  // namespace vindex::results
