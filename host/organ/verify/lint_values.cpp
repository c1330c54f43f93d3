// Owns the check of the values of tensors: what is not finite comes from a NaN or infinite weight,
// or from the scale of a block that is (ggml_validate_row_data looks at the same).
#include "lint_values.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "decode/byte_order.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/encoding/encoding.hpp"
#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace vindex::organ {
namespace {

/// Weights decoded at a time, in whole blocks: 1 MiB of float32.
constexpr std::uint64_t kChunkWeights = std::uint64_t{256} << 10U;

struct Bad {
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t first = 0;  ///< weight within the tensor
};

/// A tensor as one long row: blocks never cross rows, so its bytes are one run of blocks.
Bad judge(const LintFile& file, const LintTensor& tensor, const std::stop_token& stop) {
  const decode::ElementTypeRow& row = decode::element_type_row(*tensor.type);
  const decode::Encoding encoding = decode::plain_encoding(*tensor.type);
  const std::uint64_t weights = *checked_product(tensor.dimensions);
  const auto block = static_cast<std::uint64_t>(row.block_elements);
  const std::uint64_t step = kChunkWeights / block * block;
  std::vector<std::byte> bytes;
  std::vector<float> values(static_cast<std::size_t>(std::min(step, weights)));
  Bad bad;
  for (std::uint64_t done = 0; done < weights && !stop.stop_requested(); done += step) {
    const std::uint64_t now = std::min(step, weights - done);
    bytes.resize(static_cast<std::size_t>(*decode::stored_bytes(*tensor.type, now)));
    file.source->read(file.data_offset + tensor.offset + *decode::stored_bytes(*tensor.type, done),
                      bytes);
    if (file.big_endian) {
      decode::swap_block_fields(*tensor.type, bytes);
    }
    decode::decode_row(encoding, bytes, std::span(values).first(static_cast<std::size_t>(now)));
    for (std::uint64_t i = 0; i < now; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      if (!std::isfinite(value)) {
        bad.first = bad.nan + bad.infinite == 0 ? done + i : bad.first;
        ++(std::isnan(value) ? bad.nan : bad.infinite);
      }
    }
  }
  return bad;
}

void report_bad(const LintTensor& tensor, const Bad& bad, Findings& findings) {
  const decode::ElementTypeRow& row = decode::element_type_row(*tensor.type);
  const auto block = static_cast<std::uint64_t>(row.block_elements);
  const std::uint64_t cols =
      std::max<std::uint64_t>(1, tensor.dimensions.empty() ? 1 : tensor.dimensions.front());
  const std::string place =
      fmt::format("first in row {} at {}{}", bad.first / cols, bad.first % cols,
                  block > 1 ? fmt::format(" (block {}: its scale is not finite)", bad.first / block)
                            : std::string());
  const auto say = [&](const char* id, std::uint64_t count, const char* what) {
    if (count > 0) {
      findings.error(id, fmt::format("tensor \"{}\"", excerpt(tensor.name)),
                     fmt::format("{} {} weights, {}", count, what, place),
                     "damaged, or made by a faulty step: make it again");
    }
  };
  say("V-NAN", bad.nan, "NaN");
  say("V-INFINITE", bad.infinite, "infinite");
}

}  // namespace

void lint_values(const std::vector<LintFile>& files, std::int32_t threads,
                 const std::stop_token& stop, Findings& findings, VerifyReport& report) {
  for (const LintFile& file : files) {
    if (!file.complete) {
      continue;
    }
    std::vector<const LintTensor*> tensors;
    for (const LintTensor& tensor : file.tensors) {
      const auto begin = checked_add(file.data_offset, tensor.offset);
      const auto end = begin && tensor.bytes ? checked_add(*begin, *tensor.bytes) : std::nullopt;
      if (end && *end <= file.source->size() && *tensor.bytes > 0 &&
          decode::is_decodable(decode::plain_encoding(*tensor.type))) {
        tensors.push_back(&tensor);
      }
    }
    std::vector<Bad> bad(tensors.size());
    for_each_index(
        tensors.size(), thread_count(kChunkWeights * 8, threads),
        [&](std::size_t /*worker*/, std::size_t i) { bad[i] = judge(file, *tensors[i], stop); });
    findings.set_file(file.path);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      report_bad(*tensors[i], bad[i], findings);
    }
    findings.finish_file();
    report.tensors_checked += tensors.size();
  }
}

}  // namespace vindex::organ
