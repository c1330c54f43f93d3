// Owns a byte source that misbehaves at the n-th read: it fails, or finds the file shorter.
#pragma once

#include "input/local/file_source.hpp"
#include <vindex/error.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>

namespace vindex::testing {

enum class Fault { kFails, kEndsEarly };

class FaultySource final : public ByteSource {
 public:
  /// Forwards to `inner` but for read number `faulty_read` (from 0).
  FaultySource(ByteSource& inner, Fault fault, std::uint64_t faulty_read)
      : inner_(inner), fault_(fault), faulty_read_(faulty_read) {}

  const std::string& name() const override { return inner_.name(); }
  std::uint64_t size() const override { return inner_.size(); }
  SourceIdentity identity() const override { return inner_.identity(); }
  std::uint64_t reads() const { return reads_; }

  void read_many(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      if (reads_++ == faulty_read_) {
        if (fault_ == Fault::kFails) {
          throw SystemError("E-READ", EIO, "injected failure of " + name());
        }
        throw FormatError("E-TRUNCATED", name(), "injected end of file");
      }
      inner_.read_many(std::span(&request, 1));
    }
  }

 private:
  ByteSource& inner_;
  Fault fault_;
  std::uint64_t faulty_read_;
  std::atomic<std::uint64_t> reads_{0};
};

}  // namespace vindex::testing
