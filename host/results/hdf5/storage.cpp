// Owns memory, files, and the callbacks of the HDF5 driver over them.
#include "storage.hpp"

#include "heap_strings.hpp"

#include "core/files/reading_bounds.hpp"
#include <vindex/error.hpp>

#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::results {

bool MemoryStorage::read(std::uint64_t offset, std::span<std::byte> out) noexcept {
  const std::uint64_t from = std::min<std::uint64_t>(offset, bytes_.size());
  const std::size_t count = std::min<std::size_t>(bytes_.size() - from, out.size());
  std::memcpy(out.data(), bytes_.data() + from, count);
  std::memset(out.data() + count, 0, out.size() - count);
  return true;
}

bool MemoryStorage::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  try {
    if (offset + bytes.size() > bytes_.size()) {
      bytes_.resize(offset + bytes.size());
    }
  } catch (const std::exception&) {
    return false;
  }
  std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
  return true;
}

bool MemoryStorage::resize(std::uint64_t size) noexcept {
  try {
    bytes_.resize(size);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void MemoryStorage::expect(std::uint64_t bytes) noexcept {
  try {
    bytes_.reserve(bytes);
  } catch (const std::exception&) {
    // As before.
  }
}

FileStorage FileStorage::open(const std::string& path) {
  // Without O_NONBLOCK the opening of a FIFO waits for a writer that may never come.
  const int descriptor = open_to_read(path, O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      throw MissingInputError("E-RESULTS-MISSING", printable(path) + " does not exist");
    }
    throw SystemError("E-RESULTS-OPEN", error, "cannot open " + printable(path));
  }
  FileStorage storage(descriptor, path, true);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) {
    throw SystemError("E-RESULTS-OPEN", errno, "cannot examine " + printable(path));
  }
  if (!S_ISREG(status.st_mode)) {
    throw MissingInputError("E-RESULTS-KIND", printable(path) + " is not a regular file");
  }
  storage.size_ = static_cast<std::uint64_t>(status.st_size);
  return storage;
}

FileStorage FileStorage::borrow(int descriptor, std::string path) {
  return FileStorage(descriptor, std::move(path), false);
}

FileStorage::FileStorage(int descriptor, std::string path, bool owned)
    : descriptor_(descriptor), owned_(owned), path_(std::move(path)) {}

FileStorage::FileStorage(FileStorage&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      owned_(other.owned_),
      path_(std::move(other.path_)),
      size_(other.size_),
      write_error_(other.write_error_),
      read_error_(other.read_error_),
      unwritten_(std::move(other.unwritten_)) {}

FileStorage::~FileStorage() {
  if (owned_ && descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool FileStorage::read_file(std::uint64_t offset, std::span<std::byte> out) noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor_, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      read_error_ = errno;
      return false;
    }
    if (count == 0) {
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  std::memset(out.data() + done, 0, out.size() - done);
  return true;
}

bool FileStorage::read(std::uint64_t offset, std::span<std::byte> out) noexcept {
  if (!read_file(offset, out)) {
    return false;
  }
  for (const auto& [start, bytes] : unwritten_) {
    const std::uint64_t from = std::max(start, offset);
    const std::uint64_t to = std::min(start + bytes.size(), offset + out.size());
    if (from < to) {
      std::memcpy(out.data() + (from - offset), bytes.data() + (from - start), to - from);
    }
  }
  return true;
}

bool FileStorage::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  size_ = std::max(size_, offset + bytes.size());
  std::size_t done = 0;
  while (done < bytes.size() && write_error_ == 0) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      write_error_ = count < 0 ? errno : ENOSPC;
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  if (write_error_ != 0) {
    try {
      unwritten_[offset].assign(bytes.begin(), bytes.end());
    } catch (const std::bad_alloc&) {
      return false;  // the error of the write is the one to report
    }
  }
  return true;
}

bool FileStorage::resize(std::uint64_t size) noexcept {
  if (write_error_ == 0 && ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    write_error_ = errno;
  }
  size_ = size;
  return true;
}

void FileStorage::rethrow_failure() const {
  if (write_error_ != 0) {
    throw SystemError("E-OUT-WRITE", write_error_, "cannot write " + printable(path_));
  }
  if (read_error_ != 0) {
    throw SystemError("E-RESULTS-READ", read_error_, "cannot read " + printable(path_));
  }
}

namespace {

/// The library's view of one open file. `base` must come first: the library casts.
struct DriverFile {
  H5FD_t base;
  Storage* storage;
  haddr_t end_of_allocation;
  bool foreign;  ///< opened read-only: others may have written it
};

DriverFile* self(H5FD_t* file) { return reinterpret_cast<DriverFile*>(file); }
const DriverFile* self(const H5FD_t* file) { return reinterpret_cast<const DriverFile*>(file); }

H5FD_t* driver_open(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*maximum*/) {
  const auto* info = static_cast<Storage* const*>(H5Pget_driver_info(access));
  if (info == nullptr || *info == nullptr) {
    return nullptr;
  }
  auto* file = new (std::nothrow) DriverFile{};
  if (file == nullptr) {
    return nullptr;
  }
  file->storage = *info;
  file->foreign = (flags & H5F_ACC_RDWR) == 0;
  return &file->base;
}

herr_t driver_close(H5FD_t* file) {
  delete self(file);
  return 0;
}

int driver_compare(const H5FD_t* a, const H5FD_t* b) {
  const auto* left = self(a)->storage;
  const auto* right = self(b)->storage;
  return left == right ? 0 : (std::less<>{}(left, right) ? -1 : 1);
}

herr_t driver_query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t driver_get_eoa(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return self(file)->end_of_allocation;
}

herr_t driver_set_eoa(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  self(file)->end_of_allocation = address;
  return 0;
}

haddr_t driver_get_eof(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return self(file)->storage->size();
}

thread_local std::exception_ptr failed_transfer;

/// A storage that failed (`has_failed`) without an error of its own found no memory.
herr_t note_failure(const Storage& storage, bool has_failed = true) noexcept {
  try {
    storage.rethrow_failure();
    if (!has_failed) {
      return -1;
    }
    throw std::bad_alloc();
  } catch (...) {
    failed_transfer = std::current_exception();
  }
  return -1;
}

bool in_range(haddr_t address, std::size_t size) {
  return address <= static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max()) &&
         size <= static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max()) - address;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address,
                   std::size_t size, void* buffer) {
  const std::span<std::byte> out(static_cast<std::byte*>(buffer), size);
  Storage& storage = *self(file)->storage;
  if (!in_range(address, size)) {
    return -1;
  }
  if (!storage.read(address, out)) {
    return note_failure(storage);
  }
  const bool is_sound = !self(file)->foreign || heap_is_sound(storage, address, out);
  return is_sound ? 0 : note_failure(storage, false);
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address,
                    std::size_t size, const void* buffer) {
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer), size);
  if (!in_range(address, size)) {
    return -1;
  }
  Storage& storage = *self(file)->storage;
  return storage.write(address, bytes) ? 0 : note_failure(storage);
}

herr_t driver_truncate(H5FD_t* file, hid_t /*transfer*/, hbool_t /*closing*/) {
  DriverFile* driver = self(file);
  if (driver->end_of_allocation == driver->storage->size()) {
    return 0;
  }
  return driver->storage->resize(driver->end_of_allocation) ? 0 : note_failure(*driver->storage);
}

H5FD_class_t make_class() {
  H5FD_class_t driver = {};
  driver.name = "vindex";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max());
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size =
      sizeof(Storage*);  // NOLINT(bugprone-sizeof-expression): the driver keeps a pointer
  driver.open = driver_open;
  driver.close = driver_close;
  driver.cmp = driver_compare;
  driver.query = driver_query;
  driver.get_eoa = driver_get_eoa;
  driver.set_eoa = driver_set_eoa;
  driver.get_eof = driver_get_eof;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.truncate = driver_truncate;
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

void rethrow_failed_transfer() {
  if (failed_transfer != nullptr) {
    std::rethrow_exception(std::exchange(failed_transfer, nullptr));
  }
}

void forget_failed_transfer() noexcept { failed_transfer = nullptr; }

std::int64_t storage_driver() {
  static const H5FD_class_t driver_class = make_class();
  static const hid_t driver = H5FDregister(&driver_class);
  expects(driver >= 0, "the HDF5 library refused our file driver");
  return driver;
}

}  // namespace vindex::results
