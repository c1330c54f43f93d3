// The disk as a limit: large aligned reads past the page cache, and the page cache emptied of some
// files.
#include "machine_limits.hpp"

#include "core/files/reading_bounds.hpp"
#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::throughput {

namespace {

constexpr std::uint64_t kDiskPiece = 8ULL << 20U;
constexpr std::size_t kAlignment = 4096;

class File {
 public:
  explicit File(const std::string& path, int flags = 0) : descriptor_(open_to_read(path, flags)) {
    struct stat status {};
    if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0) {
      bytes_ = static_cast<std::uint64_t>(status.st_size);
    }
  }
  ~File() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  File(File&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

struct PageCount {
  std::uint64_t resident = 0, all = 0;
};

/// As mincore says; nothing where it does not.
std::optional<PageCount> count_pages(const File& file) {
  if (file.bytes() == 0) {
    return PageCount();
  }
  void* const view = ::mmap(nullptr, static_cast<std::size_t>(file.bytes()), PROT_READ, MAP_SHARED,
                            file.descriptor(), 0);
  if (view == MAP_FAILED) {
    return std::nullopt;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(static_cast<std::size_t>(ceil_divide(file.bytes(), page)));
  const bool known = ::mincore(view, static_cast<std::size_t>(file.bytes()), resident.data()) == 0;
  ::munmap(view, static_cast<std::size_t>(file.bytes()));
  const auto cached = std::count_if(resident.begin(), resident.end(),
                                    [](unsigned char flags) { return (flags & 1U) != 0; });
  return known ? std::optional<PageCount>({static_cast<std::uint64_t>(cached), resident.size()})
               : std::nullopt;
}

/// True where no more than a hundredth of the file's pages is in memory.
bool is_uncached(const File& file) {
  const auto pages = count_pages(file);
  return pages && pages->resident <= pages->all / 100;
}

struct FileRange {
  int descriptor;
  std::uint64_t offset;
};

}  // namespace

std::optional<double> resident_share(const std::vector<std::string>& paths) {
  PageCount sum;
  for (const std::string& path : paths) {
    const File file(path);
    const auto pages = file.descriptor() >= 0 ? count_pages(file) : std::nullopt;
    if (!pages) {
      return std::nullopt;
    }
    sum.resident += pages->resident;
    sum.all += pages->all;
  }
  return static_cast<double>(sum.resident) /
         static_cast<double>(std::max<std::uint64_t>(1, sum.all));
}

bool drop_from_page_cache(const std::vector<std::string>& paths) {
  bool dropped = true;
  for (const std::string& path : paths) {
    const File file(path);
    // Pages that are not yet on the disk cannot be dropped.
    dropped = file.descriptor() >= 0 && ::fsync(file.descriptor()) == 0 &&
              ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED) == 0 &&
              (file.bytes() == 0 || is_uncached(file)) && dropped;
  }
  return dropped;
}

Row disk_row(const std::vector<std::string>& paths, int readers, const Sampling& sampling) {
  Row row{.name = "probe.disk",
          .route = "O_DIRECT, 8 MiB, " + std::to_string(readers) + " threads",
          .batch = readers,
          .unit = "gb_per_s"};
  std::vector<File> files;
  std::vector<FileRange> ranges;
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) {
    files.emplace_back(path, O_DIRECT);
    if (files.back().descriptor() < 0) {
      row.note = "the file system has no O_DIRECT";
      return row;
    }
    for (std::uint64_t offset = 0; offset < files.back().bytes(); offset += kDiskPiece) {
      ranges.push_back({files.back().descriptor(), offset});
    }
    bytes += files.back().bytes();
  }
  const auto once = [&] {
    std::atomic<std::size_t> next{0};
    const double seconds = run_together(readers, [&](int) {
      const std::unique_ptr<void, decltype(&std::free)> buffer(
          std::aligned_alloc(kAlignment, kDiskPiece), &std::free);
      expects(buffer != nullptr, "memory for a range of a file");
      for (std::size_t i = next++; i < ranges.size(); i = next++) {
        if (::pread(ranges[i].descriptor, buffer.get(), kDiskPiece,
                    static_cast<off_t>(ranges[i].offset)) <= 0) {
          throw SystemError("E-READ", errno, "reading past the page cache failed");
        }
      }
    });
    return 1e-9 * static_cast<double>(bytes) / seconds;
  };
  row.samples = take_samples(sampling, once);
  return row;
}

}  // namespace vindex::throughput
