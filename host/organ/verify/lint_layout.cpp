// Owns the checks of where data lie: ggml wants every tensor at the padded sum of those before it
// in the table.
#include "lint_layout.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxPaddingRead = 4096;

/// The sizes of all tensors are known.
bool sizes_known(const LintFile& file) {
  return std::all_of(file.tensors.begin(), file.tensors.end(),
                     [](const LintTensor& tensor) { return tensor.bytes.has_value(); });
}

/// Whether every tensor lies where ggml wants it at this alignment.
bool is_laid_out(const LintFile& file, std::uint64_t alignment) {
  std::uint64_t end = 0;
  for (const LintTensor& tensor : file.tensors) {
    if (tensor.offset != end) {
      return false;
    }
    const auto sum = checked_add(end, *tensor.bytes);
    const auto next = sum ? checked_round_up(*sum, alignment) : std::nullopt;
    if (!next) {
      return false;
    }
    end = *next;
  }
  return true;
}

bool is_in_order(const LintFile& file) {
  return std::is_sorted(
      file.tensors.begin(), file.tensors.end(),
      [](const LintTensor& a, const LintTensor& b) { return a.offset < b.offset; });
}

void lint_offsets(const LintFile& file, Findings& findings) {
  if (is_laid_out(file, file.alignment)) {
    return;
  }
  if (file.alignment != kDefaultAlignment && is_laid_out(file, kDefaultAlignment)) {
    findings.error("V-ALIGNMENT-LAYOUT", "key \"general.alignment\"",
                   fmt::format("the file declares {} and is laid out at 32: ggml does not load it "
                               "(tools that copy the key without applying it write such files)",
                               file.alignment),
                   "lay it out as declared, or remove the key");
    return;
  }
  if (!is_in_order(file)) {
    findings.error("V-OFFSET-ORDER", fmt::format("byte {}", file.tensors.front().position),
                   "the data are not in the order of the table: ggml refuses the file",
                   "`vindex organ extract` and `assemble` write it in order");
    return;
  }
  std::uint64_t end = 0;
  for (const LintTensor& tensor : file.tensors) {
    if (tensor.offset % file.alignment != 0) {
      findings.error("V-OFFSET-ALIGN", of_tensor(tensor),
                     fmt::format("offset {} is not a multiple of the alignment {}", tensor.offset,
                                 file.alignment));
    } else if (tensor.offset > end) {
      findings.error("V-OFFSET-GAP", of_tensor(tensor),
                     fmt::format("offset {}, expected {}: ggml refuses gaps", tensor.offset, end),
                     "`vindex organ extract` and `assemble` write it without");
    } else if (tensor.offset < end) {
      findings.error("V-OVERLAP", of_tensor(tensor),
                     fmt::format("offset {} lies within the tensor before it, which ends at {}",
                                 tensor.offset, end));
    }
    const auto sum = checked_add(tensor.offset, *tensor.bytes);
    end = (sum ? checked_round_up(*sum, file.alignment) : std::nullopt).value_or(~std::uint64_t{0});
  }
}

bool is_zero(ByteSource& source, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kMaxPaddingRead, end - begin)));
  source.read(begin, bytes);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Padding behind header and tensors, as far as the file goes.
void lint_padding(const LintFile& file, Findings& findings) {
  const std::uint64_t size = file.source->size();
  const auto judge = [&](std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t until = std::min(end, size);
    if (begin < until && !is_zero(*file.source, begin, until)) {
      findings.warning("V-PADDING", fmt::format("byte {}", begin), "padding is not zero");
    }
  };
  judge(file.header_end, file.data_offset);
  std::uint64_t end = file.data_offset;
  for (const LintTensor& tensor : file.tensors) {
    const std::uint64_t last = file.data_offset + tensor.offset + *tensor.bytes;
    end =
        last + (file.alignment - (tensor.offset + *tensor.bytes) % file.alignment) % file.alignment;
    judge(last, end);
  }
  if (size < end && !file.tensors.empty()) {
    findings.warning("V-FINAL-PADDING", fmt::format("byte {}", size),
                     fmt::format("{} bytes of padding behind the last tensor are missing: some "
                                 "readers want them",
                                 end - size));
  } else if (size > end) {
    findings.warning("V-TRAILING", fmt::format("byte {}", end),
                     fmt::format("{} bytes follow the last tensor", size - end));
  }
}

}  // namespace

void lint_layout(const LintFile& file, Findings& findings) {
  if (!file.complete || !sizes_known(file)) {
    return;
  }
  if (!file.tensors.empty()) {
    lint_offsets(file, findings);
  }
  bool inside = true;
  for (const LintTensor& tensor : file.tensors) {
    const auto begin = checked_add(file.data_offset, tensor.offset);
    const auto end = begin ? checked_add(*begin, *tensor.bytes) : std::nullopt;
    if (!end || *end > file.source->size()) {
      inside = false;
      findings.error("V-BOUNDS", of_tensor(tensor),
                     fmt::format("{} bytes at offset {} do not lie within the file of {} bytes",
                                 *tensor.bytes, tensor.offset, file.source->size()),
                     "cut short: fetch it again");
    }
  }
  if (inside && is_in_order(file)) {
    lint_padding(file, findings);
  }
}

}  // namespace vindex::organ
