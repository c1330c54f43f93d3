// Owns the calls that libhdf5 makes, and what failed under one of them.
#include "storage_driver.hpp"

#include "heap_strings.hpp"

#include <vindex/error.hpp>

#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace vindex::results {

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
