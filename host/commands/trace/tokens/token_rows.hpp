// Owns rows of float32, one for each token of a run: the residual stream, or what is added to it.
// In memory, or in a file where the budget does not hold them; both give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands {

/// [tokens, width], row-major. One thread at a time. Errors of the form in a file: SystemError
/// E-TRACE-ROWS (74).
class TokenRows {
 public:
  TokenRows(std::int64_t tokens, std::int64_t width) : tokens_(tokens), width_(width) {}
  virtual ~TokenRows() = default;
  TokenRows(const TokenRows&) = delete;
  TokenRows& operator=(const TokenRows&) = delete;

  std::int64_t tokens() const { return tokens_; }
  std::int64_t width() const { return width_; }

  /// Rows [first, first + count) to `out` [count, width].
  void read(std::int64_t first, std::int64_t count, float* out) const;
  /// The same from `rows`.
  void write(std::int64_t first, std::int64_t count, const float* rows);
  /// Rows `rows` (in any order) to `out` [rows, width].
  void gather(std::span<const std::int64_t> rows, float* out) const;
  /// Row rows[i] += weights[i] * values[i, :], in the order of i; a row may come more than once.
  void add(std::span<const std::int64_t> rows, std::span<const float> weights, const float* values);
  void set_zero();
  /// What was written is durable; nothing in memory is.
  virtual void sync() {}
  /// Bytes of memory that it holds.
  virtual std::uint64_t memory_bytes() const = 0;

 protected:
  virtual void read_rows(std::int64_t first, std::int64_t count, float* out) const = 0;
  virtual void write_rows(std::int64_t first, std::int64_t count, const float* rows) = 0;
  /// All of them, where they are in memory; else null.
  virtual float* in_memory() { return nullptr; }

 private:
  void check(std::int64_t first, std::int64_t count) const;

  std::int64_t tokens_, width_;
  std::vector<float> row_;  ///< of add()
};

/// Writes all rows of `from` to `to`, which has as many.
void copy_rows(const TokenRows& from, TokenRows& to);

/// Rows of zeros in memory. Errors: OutOfMemory.
std::unique_ptr<TokenRows> make_rows_in_memory(std::int64_t tokens, std::int64_t width);
/// Rows of zeros in a file without a name, which `folder` holds as long as they live. Errors:
/// throw_output_error() E-TRACE-ROWS where no file can be made there.
std::unique_ptr<TokenRows> make_rows_in_file(std::int64_t tokens, std::int64_t width,
                                             const std::string& folder);
/// Rows in the file `path` from byte 0 on, which is made where it is absent, with zeros. It stays.
std::unique_ptr<TokenRows> open_rows_file(std::int64_t tokens, std::int64_t width,
                                          const std::string& path);

}  // namespace vindex::commands
