// Owns the reading of whole files beside each other and the comparison of their digests.
#include "verify_files.hpp"

#include "model_store.hpp"

#include "core/digest.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vindex::input {

namespace {

constexpr std::uint64_t kPiece = std::uint64_t{32} << 20U;

std::string digest_of(ByteSource& source, const std::stop_token& stop) {
  Sha256 digest;
  std::vector<std::byte> memory(static_cast<std::size_t>(std::min(kPiece, source.size())));
  for (std::uint64_t at = 0; at < source.size(); at += kPiece) {
    throw_if_stopped(stop);
    const auto piece =
        std::span(memory).first(static_cast<std::size_t>(std::min(kPiece, source.size() - at)));
    source.read(at, piece);
    digest.update(piece);
  }
  return hex(digest.finish());
}

}  // namespace

std::uint64_t verify_files(const ModelFiles& files, std::int32_t threads,
                           const std::stop_token& stop) {
  std::vector<std::string> published;
  std::uint64_t bytes = 0;
  for (const Shard& shard : files.shards) {
    published.push_back(files.store->published_sha256(shard.file_name));
    if (published.back().empty()) {
      throw UsageError(
          "E-VERIFY",
          fmt::format("{}: no SHA-256 is published for this file; --verify is for files of the Hub "
                      "(hf://) that it keeps as LFS objects, and for those in its cache",
                      shard.source->name()));
    }
    bytes += shard.source->size();
  }
  for_each_index(
      files.shards.size(), thread_count(kPiece, threads),
      [&](std::size_t /*worker*/, std::size_t i) {
        const Shard& shard = files.shards[i];
        const std::string found = digest_of(*shard.source, stop);
        require_unchanged(shard);
        if (found != published[i]) {
          throw FormatError(
              "E-DIGEST", shard.source->name(),
              fmt::format("its SHA-256 is {}, and {} is published: damaged on its way or "
                          "in its place, or another file",
                          found, published[i]));
        }
      });
  return bytes;
}

}  // namespace vindex::input
