// Owns flattening a description into stored lines, and comparing fingerprints.
#include "file_description.hpp"

#include "schema.hpp"

#include "core/text/secrets.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace vindex::results {

namespace {

/// The values of a scale as a line of the fingerprint; of many, how many there are and the ends.
std::string scale_line(const ScaleValues& values) {
  constexpr std::size_t kMaxListed = 64;
  const auto line = [](const auto& numbers) {
    return numbers.size() <= kMaxListed
               ? fmt::format("{}", fmt::join(numbers, " "))
               : fmt::format("{} from {} to {}", numbers.size(), numbers.front(), numbers.back());
  };
  return values.integers.empty() ? line(values.doubles) : line(values.integers);
}

/// What rows hold must be alike too, whatever the run thinks of.
void add_stored_lines(const RunDescription& run, Fingerprint& lines) {
  if (const auto add = schema_of(run.schema).add_lines; add != nullptr) {
    add(run, lines);
  }
  if (!run.optional_columns.empty()) {
    lines.emplace_back("stored.columns", fmt::format("{}", fmt::join(run.optional_columns, " ")));
  }
  for (const auto& [name, values] : run.scales) {
    lines.emplace_back("stored.scale " + name, scale_line(values));
  }
}

}  // namespace

FileDescription describe(const RunDescription& run) {
  FileDescription out;
  out.schema = run.schema;
  out.model = printable(run.model);
  out.mode = run.mode;
  out.backend = run.backend;
  out.title = printable(run.title);
  out.history = printable(run.history);
  out.store_spectra = run.store_spectra;
  out.sign_flip_draws = run.sign_flip_draws;
  out.vectors = run.vectors;
  out.sampled = run.sampled;
  for (const auto& [name, value] : run.fingerprint) {
    out.fingerprint.emplace_back(printable(name), printable(value));
  }
  out.other_model = printable(run.compare.other_model);
  out.spectra_joined = run.compare.spectra;
  for (const UnpairedMatrix& matrix : run.compare.unpaired) {
    out.unpaired.push_back({matrix.side, escaped(matrix.tensor), printable(matrix.reason)});
  }
  out.scales = run.scales;
  out.optional_columns = run.optional_columns;
  for (const RunAttribute& attribute : run.attributes) {
    const auto* const text = std::get_if<std::string>(&attribute.value);
    out.attributes.push_back(text == nullptr ? attribute
                                             : RunAttribute{attribute.name, printable(*text)});
  }
  add_stored_lines(run, out.fingerprint);
  out.command = without_secrets(run.command_json);
  out.settings = without_secrets(run.settings_json);
  out.inputs = without_secrets(run.inputs_json);
  out.environment = without_secrets(run.environment_json);
  out.config = without_secrets(run.config_json);
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    const model::TensorRecord& record = run.tensors[i];
    TensorEntry entry;
    entry.name = escaped(record.name);
    entry.stored =
        i < run.tensor_stored_names.size() ? escaped(run.tensor_stored_names[i]) : entry.name;
    entry.block = model::block_name(record.block);
    entry.role = escaped(record.role);
    entry.layer = record.layer;
    entry.shape = fmt::format("{}", fmt::join(record.shape, "x"));
    entry.encoding = printable(record.encoding);
    entry.count = record.count;
    entry.in_matrix = record.in_matrix;
    entry.reason = printable(record.reason);
    if (run.sampled) {
      const TensorSample& sample = run.tensor_samples.at(i);
      entry.organ_class = printable(sample.organ_class);
      entry.angles = sample.angles;
      entry.scales = sample.scales;
      entry.scales_missing = printable(sample.scales_missing);
      entry.block_scales = sample.block_scales;
      if (!sample.missing.empty()) {
        entry.reason += (entry.reason.empty() ? "" : "; ") + printable(sample.missing);
      }
    }
    out.tensors.push_back(std::move(entry));
  }
  return out;
}

void keep_derived_lines(Fingerprint& lines, const Fingerprint& found) {
  for (const auto& line : found) {
    const bool known = std::any_of(lines.begin(), lines.end(),
                                   [&](const auto& other) { return other.first == line.first; });
    if (line.first.starts_with(kDerivedLine) && !known) {
      lines.push_back(line);
    }
  }
}

void require_same_fingerprint(const Fingerprint& wanted, const Fingerprint& found,
                              const std::string& path, const std::string& advice) {
  const std::map<std::string, std::string> before(found.begin(), found.end());
  const std::map<std::string, std::string> now(wanted.begin(), wanted.end());
  const auto differ = [&](const std::string& name, const std::string& was, const std::string& is) {
    throw ConfigurationError("E-RESUME-FINGERPRINT",
                             fmt::format("{} belongs to another run: {} was {}, now {}; {}",
                                         printable(path), name, was, is, advice));
  };
  for (const auto& [name, value] : wanted) {
    const auto other = before.find(name);
    if (other == before.end()) {
      if (name.starts_with(kDerivedLine)) {
        continue;
      }
      differ(name, "not recorded", "'" + value + "'");
    } else if (other->second != value) {
      differ(name, "'" + other->second + "'", "'" + value + "'");
    }
  }
  for (const auto& [name, value] : found) {
    if (!now.contains(name) && !name.starts_with(kDerivedLine)) {
      differ(name, "'" + value + "'", "not recorded");
    }
  }
}

}  // namespace vindex::results
