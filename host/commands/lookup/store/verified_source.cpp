// Owns dividing reads into blocks and comparing these.
#include "verified_source.hpp"

#include "gate_vector_layout.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::commands {

namespace {

class VerifiedSource final : public ByteSource {
 public:
  VerifiedSource(std::unique_ptr<ByteSource> source, std::vector<VerifiedRange> ranges)
      : source_(std::move(source)), ranges_(std::move(ranges)) {}

  const std::string& name() const override { return source_->name(); }
  std::uint64_t size() const override { return source_->size(); }
  SourceIdentity identity() const override { return source_->identity(); }
  SourceIdentity identity_at_opening() const override { return source_->identity_at_opening(); }

  void read_many(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      if (!request.into.empty()) {
        read_request(request);
      }
    }
  }

 private:
  void read_request(const ReadRequest& request) {
    const auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const VerifiedRange& one) {
      return request.offset >= one.first && request.offset - one.first <= one.bytes &&
             request.into.size() <= one.bytes - (request.offset - one.first);
    });
    expects(range != ranges_.end(), "a read of verified bytes");
    std::uint64_t at = request.offset - range->first;
    std::span<std::byte> left = request.into;
    std::vector<std::byte> block;
    while (!left.empty()) {
      const std::uint64_t number = at / range->block_bytes;
      const std::uint64_t begin = number * range->block_bytes;
      const std::uint64_t size = std::min(range->block_bytes, range->bytes - begin);
      const std::uint64_t skipped = at - begin;
      const std::uint64_t taken = std::min<std::uint64_t>(size - skipped, left.size());
      const bool is_whole = taken == size;
      block.resize(is_whole ? 0 : size);
      const std::span<std::byte> into = is_whole ? left.first(size) : std::span(block);
      source_->read(range->first + begin, into);
      if (block_digest(into) != range->digests.at(number)) {
        throw FormatError("E-RESULTS-DATA", name(),
                          fmt::format("bytes {} to {} are not what was written: the file is "
                                      "damaged",
                                      range->first + begin, range->first + begin + size - 1));
      }
      if (!is_whole) {
        std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(skipped), taken, left.begin());
      }
      left = left.subspan(taken);
      at += taken;
    }
  }

  std::unique_ptr<ByteSource> source_;
  std::vector<VerifiedRange> ranges_;
};

}  // namespace

std::unique_ptr<ByteSource> make_verified_source(std::unique_ptr<ByteSource> source,
                                                 std::vector<VerifiedRange> ranges) {
  return std::make_unique<VerifiedSource>(std::move(source), std::move(ranges));
}

}  // namespace vindex::commands
