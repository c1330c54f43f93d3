// Owns choosing arrays, their files, and the conversion of rows.
#include "trace_dump.hpp"

#include "core/files/path_kind.hpp"
#include "core/integers.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "decode/encode/encode.hpp"
#include "model/dump/dump.hpp"
#include "model/routers/carried_rule.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

namespace vindex::commands {

namespace {

using decode::ElementType;

constexpr OutputErrorIds kDumpErrors = {"E-OUTPUT-WRITE", "E-OUTPUT-WRITE", "E-OUTPUT-WRITE",
                                        "E-OUTPUT-WRITE"};
/// In the order in which a layer gives them.
constexpr std::array<std::string_view, 4> kRoles = {model::kMlpRole, model::kRouterLogitsRole,
                                                    model::kHiddenRole, model::kLogitsRole};

std::uint64_t width_of(ElementType type) {
  return static_cast<std::uint64_t>(decode::element_type_row(type).block_bytes);
}

const char* npy_type(ElementType type) {
  return type == ElementType::kF16 ? "<f2" : type == ElementType::kI64 ? "<i8" : "<f4";
}

/// Everything before the elements. Source: numpy/lib/format.py (version 1.0, data at a multiple of
/// 64).
std::string header_of(const DumpArrayPlan& plan) {
  const bool is_vector = plan.cols == 0;
  if (plan.file.ends_with(".npy")) {
    std::string dict = fmt::format(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", npy_type(plan.type),
        is_vector ? fmt::format("{},", plan.rows) : fmt::format("{}, {}", plan.rows, plan.cols));
    constexpr std::size_t kBefore = 10;
    constexpr std::size_t kAlignment = 64;
    dict.append((kAlignment - (kBefore + dict.size() + 1) % kAlignment) % kAlignment, ' ');
    dict += '\n';
    std::string header("\x93NUMPY\x01\x00", 8);
    header += static_cast<char>(dict.size() & 0xFFU);
    header += static_cast<char>(dict.size() >> 8U);
    return header + dict;
  }
  return safetensors_header(std::span(&plan, 1));
}

std::string path_in(const std::string& folder, const std::string& file) {
  return folder + "/" + file;
}

/// The width of `role` in `layer`; 0: the layer has none.
std::int64_t width_of_role(std::string_view role, const model::Transformer& transformer,
                           const model::TransformerLayer& layer) {
  if (role == model::kHiddenRole) {
    return transformer.hidden;
  }
  if (role == model::kRouterLogitsRole) {
    return layer.mixture ? static_cast<std::int64_t>(layer.mixture->experts.size()) : 0;
  }
  if (role == model::kMlpRole) {
    return layer.dense                              ? layer.dense->neurons
           : layer.mixture && layer.mixture->shared ? layer.mixture->shared->neurons
                                                    : 0;
  }
  return 0;
}

DumpArrayPlan array_plan(std::string_view role, std::int32_t layer, std::int64_t rows,
                         std::int64_t cols, ElementType type, bool safetensors) {
  DumpArrayPlan plan;
  plan.role = role;
  plan.layer = layer;
  plan.name = layer < 0 ? std::string(role) : fmt::format("{}.{}", role, layer);
  plan.rows = rows;
  plan.cols = cols;
  plan.type = type;
  plan.file = plan.name + (safetensors ? ".safetensors" : ".npy");
  const std::array<std::uint64_t, 3> factors = {
      static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(std::max<std::int64_t>(cols, 1)),
      width_of(type)};
  const auto bytes = checked_product(factors);
  if (!bytes || !checked_count(*bytes)) {
    throw ConfigurationError("E-KEEP", plan.name + " would exceed 2^63 bytes");
  }
  plan.bytes = *bytes;
  return plan;
}

}  // namespace

DumpChoice dump_choice(const std::string& keep, const std::string& layers, const std::string& type,
                       const std::string& format) {
  DumpChoice choice;
  if (!keep.empty()) {
    choice.keep.clear();
    for (const std::string_view part : split(keep, ',')) {
      if (std::find(kRoles.begin(), kRoles.end(), part) == kRoles.end()) {
        throw UsageError("E-KEEP", fmt::format("--keep `{}`: hidden, mlp, router_logits and logits "
                                               "can be kept, with commas",
                                               printable(std::string(part))));
      }
      choice.keep.emplace(part);
    }
  }
  choice.layers = model::parse_selection(layers, "", "", "");
  choice.safetensors = format == "safetensors";
  choice.type = type == "f16"    ? ElementType::kF16
                : type == "bf16" ? ElementType::kBF16
                                 : ElementType::kF32;
  if (choice.type == ElementType::kBF16 && !choice.safetensors) {
    throw UsageError("E-DTYPE", "--dtype bf16: .npy has no such type; --format safetensors has");
  }
  return choice;
}

std::string safetensors_header(std::span<const DumpArrayPlan> plan, const std::string& rule) {
  std::string text = "{";
  if (!rule.empty()) {
    const Json metadata = {{std::string(model::kCarriedRuleKey), rule}};
    text += fmt::format(R"("__metadata__":{},)", metadata.dump());
  }
  std::uint64_t at = 0;
  for (const DumpArrayPlan& array : plan) {
    const std::uint64_t end = at + array.bytes;
    text += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        at == 0 ? "" : ",", array.name,
                        decode::element_type_row(array.type).safetensors,
                        array.cols == 0 ? fmt::format("{}", array.rows)
                                        : fmt::format("{},{}", array.rows, array.cols),
                        at, end);
    at = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string header(8, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(header.data(), &length, sizeof length);  // little-endian, as this program's machines
  return header + text;
}

std::vector<DumpArrayPlan> plan_dump(const DumpChoice& choice,
                                     const model::Transformer& transformer, std::int64_t tokens) {
  std::vector<DumpArrayPlan> plan;
  plan.push_back(array_plan("token_ids", -1, tokens, 0, ElementType::kI64, choice.safetensors));
  plan.push_back(array_plan("prompt", -1, tokens, 0, ElementType::kI64, choice.safetensors));
  const std::size_t beside = plan.size();
  bool any_layer = choice.layers.layers.empty();
  for (const model::TransformerLayer& layer : transformer.layers) {
    if (!model::wants(choice.layers, layer.number, model::Block::kOther, "")) {
      continue;
    }
    any_layer = true;
    for (const std::string_view role : kRoles) {
      const std::int64_t width = width_of_role(role, transformer, layer);
      if (width > 0 && choice.keep.contains(std::string(role))) {
        plan.push_back(
            array_plan(role, layer.number, tokens, width, choice.type, choice.safetensors));
      }
    }
  }
  if (!any_layer) {
    throw UsageError("E-SELECTION", fmt::format("--layers names none of the layers 0 to {}",
                                                transformer.layers.size() - 1));
  }
  if (choice.keep.contains(std::string(model::kLogitsRole))) {
    plan.push_back(array_plan(model::kLogitsRole, -1, tokens, transformer.vocabulary, choice.type,
                              choice.safetensors));
  }
  if (plan.size() == beside) {
    throw ConfigurationError(
        "E-KEEP",
        "nothing of what --keep names is there: routers are parts of mixtures, and "
        "neurons are kept of dense layers and shared experts alone");
  }
  return plan;
}

DumpArray::DumpArray(const DumpArrayPlan& plan, const std::string& folder, const std::string& shown)
    : plan_(plan),
      file_((remove_file(path_in(folder, plan.file)), path_in(shown, plan.file)),
            path_in(folder, plan.file), kDumpErrors) {
  const std::string header = header_of(plan_);
  data_ = header.size();
  file_.resize(data_ + plan_.bytes);
  file_.write(0, std::as_bytes(std::span(header)));
}

void DumpArray::encode(std::span<const float> values, std::vector<std::byte>& bytes) const {
  bytes.resize(values.size() * width_of(plan_.type));
  if (plan_.type == ElementType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return;
  }
  const bool half = plan_.type == ElementType::kF16;
  constexpr std::uint16_t kMagnitude = 0x7FFF;
  constexpr std::uint16_t kInfinity = 0x7C00;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits =
        half ? decode::encode_f16(values[i]) : decode::encode_bf16(values[i]);
    if (half && (bits & kMagnitude) == kInfinity && std::isfinite(values[i])) {
      throw ConfigurationError("E-DUMP-RANGE",
                               fmt::format("{} has values beyond float16 ({:.3g}): --dtype f32, "
                                           "or bf16 with --format safetensors, holds them",
                                           plan_.name, values[i]));
    }
    std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
  }
}

void DumpArray::write(std::int64_t first, std::int64_t rows, std::int64_t first_col,
                      std::int64_t cols, const float* values) {
  expects(first >= 0 && rows >= 0 && first + rows <= plan_.rows && first_col >= 0 && cols >= 0 &&
              first_col + cols <= plan_.cols,
          "a part of an array of the dump");
  const std::uint64_t width = width_of(plan_.type);
  // Runs of values that lie together in the file, in pieces of bounded memory.
  constexpr std::int64_t kPiece = 1 << 20;
  const std::int64_t run = cols == plan_.cols ? rows * cols : cols;
  const std::int64_t runs = cols == plan_.cols ? 1 : rows;
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::uint64_t at =
        static_cast<std::uint64_t>((first + i) * plan_.cols + first_col) * width;
    for (std::int64_t done = 0; done < run; done += kPiece) {
      const std::int64_t count = std::min(kPiece, run - done);
      encode({values + i * run + done, as_size(count)}, encoded_);
      file_.write(data_ + at + static_cast<std::uint64_t>(done) * width, encoded_);
    }
  }
}

void DumpArray::write(std::int64_t first, std::span<const std::int64_t> values) {
  expects(plan_.type == ElementType::kI64 && first >= 0 &&
              first + static_cast<std::int64_t>(values.size()) <= plan_.rows,
          "a part of a list of the dump");
  file_.write(data_ + static_cast<std::uint64_t>(first) * sizeof(std::int64_t),
              std::as_bytes(values));
}

void DumpArray::finish() {
  file_.flush();
  file_.rename();
}

DumpWriter::DumpWriter(std::vector<DumpArrayPlan> plan, const TracePrompts& prompts,
                       std::string folder, std::string shown, std::string rule)
    : plan_(std::move(plan)),
      prompts_(prompts),
      folder_(std::move(folder)),
      shown_(std::move(shown)),
      rule_(std::move(rule)) {}

void DumpWriter::begin(std::int32_t layer) {
  std::set<std::string> kept;
  for (const DumpArrayPlan& plan : plan_) {
    if (plan.layer >= 0 && plan.layer < layer) {
      kept.insert(plan.file);
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (!kept.contains(entry.path().filename().string())) {
      remove_file(entry.path().string());
    }
  }
  for (const std::string& file : kept) {
    if (path_kind(folder_ + "/" + file) != PathKind::kFile) {
      throw FormatError(
          "E-TRACE-STATE", printable(folder_ + "/" + file),
          "an array of a finished layer is not there any more; --restart begins anew");
    }
  }
}

const DumpArrayPlan* DumpWriter::find(std::string_view role, std::int32_t layer) const {
  const auto found = std::find_if(plan_.begin(), plan_.end(), [&](const DumpArrayPlan& plan) {
    return plan.role == role && plan.layer == layer;
  });
  return found == plan_.end() ? nullptr : &*found;
}

DumpArray& DumpWriter::array(std::string_view role, std::int32_t layer) {
  const DumpArrayPlan* plan = find(role, layer);
  expects(plan != nullptr, "an array of the dump");
  std::unique_ptr<DumpArray>& array = open_[plan->name];
  if (array == nullptr) {
    array = std::make_unique<DumpArray>(*plan, folder_, shown_);
  }
  return *array;
}

void DumpWriter::write(std::string_view role, const TraceBlock& block) {
  array(role, block.layer).write(block.first, block.rows, 0, block.width, block.values);
}

void DumpWriter::logits(const LogitsTile& tile) {
  array(model::kLogitsRole, -1)
      .write(tile.first, tile.rows, tile.first_entry, tile.entries, tile.values);
}

void DumpWriter::finish_open() {
  for (auto& [name, array] : open_) {
    array->finish();
  }
  open_.clear();
  sync_folder(folder_, kDumpErrors.folder);
}

void DumpWriter::end_layer(std::int32_t /*layer*/) { finish_open(); }

void DumpWriter::finish() {
  DumpArray& ids = array("token_ids", -1);
  DumpArray& prompts = array("prompt", -1);
  std::vector<std::int64_t> values;
  std::int64_t first = 0;
  for (std::size_t prompt = 0; prompt < prompts_.lengths.size(); ++prompt) {
    const std::int64_t length = prompts_.lengths[prompt];
    values.assign(as_size(length), static_cast<std::int64_t>(prompt));
    prompts.write(first, values);
    const auto begin = prompts_.ids.begin() + first;
    values.assign(begin, begin + length);
    ids.write(first, values);
    first += length;
  }
  if (!rule_.empty()) {
    const std::string file(model::kCarriedRuleFile);
    AtomicFile text(path_in(shown_, file), path_in(folder_, file), kDumpErrors);
    text.write(0, std::as_bytes(std::span(rule_)));
    text.flush();
    text.rename();
  }
  finish_open();
}

std::uint64_t DumpWriter::bytes() const {
  constexpr std::uint64_t kHeader = 128;
  return std::accumulate(
      plan_.begin(), plan_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const DumpArrayPlan& plan) { return sum + plan.bytes + kHeader; });
}

}  // namespace vindex::commands
