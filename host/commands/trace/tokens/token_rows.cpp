// Owns rows in memory, rows in a file, and what both have in common.
#include "token_rows.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/small_file.hpp"
#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::commands {

namespace {

constexpr const char* kErrorId = "E-TRACE-ROWS";
/// Of rows that are moved at a time, about.
constexpr std::int64_t kMovedValues = 1 << 20;

std::size_t values_of(std::int64_t rows, std::int64_t width) {
  const auto count =
      checked_multiply(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(width));
  const auto bytes = count ? checked_multiply(*count, sizeof(float)) : std::nullopt;
  if (!bytes || !checked_count(*bytes)) {
    throw OutOfMemory("the residual stream", static_cast<std::size_t>(-1));
  }
  return static_cast<std::size_t>(*count);
}

class MemoryRows final : public TokenRows {
 public:
  MemoryRows(std::int64_t tokens, std::int64_t width) : TokenRows(tokens, width) {
    const std::size_t count = values_of(tokens, width);
    try {
      values_.assign(count, 0.0F);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory("the residual stream", count * sizeof(float));
    }
  }
  std::uint64_t memory_bytes() const override { return values_.size() * sizeof(float); }

 protected:
  void read_rows(std::int64_t first, std::int64_t count, float* out) const override {
    std::memcpy(out, values_.data() + at(first), at(count) * sizeof(float));
  }
  void write_rows(std::int64_t first, std::int64_t count, const float* rows) override {
    std::memcpy(values_.data() + at(first), rows, at(count) * sizeof(float));
  }
  float* in_memory() override { return values_.data(); }

 private:
  std::size_t at(std::int64_t row) const { return as_size(row) * as_size(width()); }
  std::vector<float> values_;
};

class FileRows final : public TokenRows {
 public:
  /// Takes `descriptor`.
  FileRows(std::int64_t tokens, std::int64_t width, int descriptor, std::string name)
      : TokenRows(tokens, width), descriptor_(descriptor), name_(std::move(name)) {
    // Zeros take no room on the disk before they are written.
    const auto bytes = static_cast<off_t>(values_of(tokens, width) * sizeof(float));
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0 ||
        (status.st_size != bytes && ::ftruncate(descriptor_, bytes) != 0)) {
      const int error = errno;
      ::close(descriptor_);
      throw SystemError(kErrorId, error, name_ + ": the file of rows cannot be made");
    }
  }
  ~FileRows() override { ::close(descriptor_); }
  std::uint64_t memory_bytes() const override { return 0; }
  void sync() override {
    if (::fsync(descriptor_) != 0) {
      fail(errno, "written");
    }
  }

 protected:
  void read_rows(std::int64_t first, std::int64_t count, float* out) const override {
    auto* into = reinterpret_cast<char*>(out);
    transfer(first, count, "read", [&](std::size_t done, std::size_t bytes, off_t offset) {
      return ::pread(descriptor_, into + done, bytes, offset);
    });
  }
  void write_rows(std::int64_t first, std::int64_t count, const float* rows) override {
    const auto* from = reinterpret_cast<const char*>(rows);
    transfer(first, count, "written", [&](std::size_t done, std::size_t bytes, off_t offset) {
      return ::pwrite(descriptor_, from + done, bytes, offset);
    });
  }

 private:
  template <typename Call>
  void transfer(std::int64_t first, std::int64_t count, const char* what, Call call) const {
    const std::size_t row = as_size(width()) * sizeof(float);
    const std::size_t bytes = as_size(count) * row;
    const std::size_t begin = as_size(first) * row;
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = call(done, bytes - done, static_cast<off_t>(begin + done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        fail(got < 0 ? errno : EIO, what);
      }
      done += static_cast<std::size_t>(got);
    }
  }
  [[noreturn]] void fail(int error, const char* what) const {
    throw SystemError(kErrorId, error, fmt::format("{}: rows cannot be {}", name_, what));
  }

  int descriptor_;
  std::string name_;
};

}  // namespace

void TokenRows::check(std::int64_t first, std::int64_t count) const {
  expects(first >= 0 && count >= 0 && first <= tokens_ && count <= tokens_ - first,
          "rows of the residual stream");
}

void TokenRows::read(std::int64_t first, std::int64_t count, float* out) const {
  check(first, count);
  read_rows(first, count, out);
}

void TokenRows::write(std::int64_t first, std::int64_t count, const float* rows) {
  check(first, count);
  write_rows(first, count, rows);
}

void TokenRows::gather(std::span<const std::int64_t> rows, float* out) const {
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) {
      ++end;
    }
    read(rows[i], static_cast<std::int64_t>(end - i), out + i * as_size(width_));
    i = end;
  }
}

void TokenRows::add(std::span<const std::int64_t> rows, std::span<const float> weights,
                    const float* values) {
  expects(weights.size() == rows.size(), "a weight for each row");
  float* const held = in_memory();
  const std::size_t width = as_size(width_);
  for (std::size_t i = 0; i < rows.size(); ++i, values += width) {
    check(rows[i], 1);
    float* row = held == nullptr ? nullptr : held + as_size(rows[i]) * width;
    if (held == nullptr) {
      row_.resize(width);
      row = row_.data();
      read_rows(rows[i], 1, row);
    }
    for (std::size_t j = 0; j < width; ++j) {
      const float term = weights[i] * values[j];
      row[j] += term;
    }
    if (held == nullptr) {
      write_rows(rows[i], 1, row);
    }
  }
}

void TokenRows::set_zero() {
  if (float* const held = in_memory()) {
    std::fill_n(held, as_size(tokens_) * as_size(width_), 0.0F);
    return;
  }
  const std::int64_t step =
      std::max<std::int64_t>(1, kMovedValues / std::max<std::int64_t>(1, width_));
  const std::vector<float> zeros(as_size(std::min(step, tokens_)) * as_size(width_), 0.0F);
  for (std::int64_t first = 0; first < tokens_; first += step) {
    write_rows(first, std::min(step, tokens_ - first), zeros.data());
  }
}

void copy_rows(const TokenRows& from, TokenRows& to) {
  expects(from.tokens() == to.tokens() && from.width() == to.width(), "rows of one shape");
  const std::int64_t step =
      std::max<std::int64_t>(1, kMovedValues / std::max<std::int64_t>(1, from.width()));
  std::vector<float> values(as_size(std::min(step, from.tokens())) * as_size(from.width()));
  for (std::int64_t first = 0; first < from.tokens(); first += step) {
    const std::int64_t count = std::min(step, from.tokens() - first);
    from.read(first, count, values.data());
    to.write(first, count, values.data());
  }
}

std::unique_ptr<TokenRows> make_rows_in_memory(std::int64_t tokens, std::int64_t width) {
  return std::make_unique<MemoryRows>(tokens, width);
}

std::unique_ptr<TokenRows> make_rows_in_file(std::int64_t tokens, std::int64_t width,
                                             const std::string& folder) {
  return std::make_unique<FileRows>(tokens, width, open_nameless_file(folder, kErrorId),
                                    printable(folder));
}

std::unique_ptr<TokenRows> open_rows_file(std::int64_t tokens, std::int64_t width,
                                          const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) {
    throw_output_error(kErrorId, errno,
                       fmt::format("{}: the file of rows cannot be opened", printable(path)));
  }
  if (!is_own_file(descriptor)) {
    ::close(descriptor);
    throw_output_error(kErrorId, EEXIST,
                       fmt::format("{}: is no file of its own but a link", printable(path)));
  }
  return std::make_unique<FileRows>(tokens, width, descriptor, printable(path));
}

}  // namespace vindex::commands
