// Owns indexing the groups of spectra and vectors, and reading from them.
#include "spectra_reader.hpp"

#include "table_rows.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::results {

std::vector<std::int64_t> SpectraReader::members_of(const std::string& group,
                                                    model::ResultTable table) const {
  const h5::Dataset dataset = file_.open_dataset(group + "/matrix");
  const auto total = static_cast<std::uint64_t>(row_count(file_, schema_, table));
  if (dataset.shape().size() != 1 || dataset.shape()[0] > total) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + group), "wrong shape");
  }
  std::vector<std::int64_t> members(dataset.shape()[0]);
  dataset.read<std::int64_t>(0, members.size(), members);
  for (const std::int64_t member : members) {
    if (member < 0 || static_cast<std::uint64_t>(member) >= total) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + group),
                        fmt::format("row {} does not exist", member));
    }
  }
  return members;
}

void SpectraReader::index() {
  if (indexed_) {
    return;
  }
  const auto add = [&](model::ResultTable table, const std::string& parent, const char* data,
                       std::size_t rank, std::unordered_map<std::int64_t, Place>& places) {
    const std::int64_t first = first_row(file_, schema_, table);
    for (const std::string& name : file_.list(parent)) {
      const std::string group = parent + "/" + name;
      const std::vector<std::int64_t> members = members_of(group, table);
      const h5::Shape shape = file_.open_dataset(group + data).shape();
      if (shape.size() != rank || shape[0] != members.size() || shape[1] > (1U << 28U)) {
        throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + group),
                          "wrong shape");
      }
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (!places.emplace(first + members[i], Place{groups_.size(), i}).second) {
          throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + group),
                            fmt::format("row {} appears twice", members[i]));
        }
      }
      groups_.push_back({group, shape[1], std::nullopt});
    }
  };
  for (const model::ResultTable table : kTables) {
    if (has_table(file_, table)) {
      add(table, bulk_prefix(table) + "/spectra", "/sigma", 2, spectra_);
      add(table, bulk_prefix(table) + "/vectors", "/right", 3, vectors_);
    }
  }
  indexed_ = true;
}

std::int64_t SpectraReader::sigma_count(std::int64_t row) {
  index();
  const auto place = spectra_.find(row);
  return place == spectra_.end() ? 0
                                 : static_cast<std::int64_t>(groups_[place->second.group].width);
}

std::int32_t SpectraReader::vector_count(std::int64_t row) {
  index();
  const auto place = vectors_.find(row);
  return place == vectors_.end() ? 0
                                 : static_cast<std::int32_t>(groups_[place->second.group].width);
}

void SpectraReader::read_sigma(std::int64_t row, std::span<double> out) {
  index();
  const auto place = spectra_.find(row);
  expects(place != spectra_.end(), "a spectrum that the file does not hold");
  Group& group = groups_[place->second.group];
  if (!group.data) {
    group.data = file_.open_dataset(group.path + "/sigma");
  }
  expects(out.size() == group.width, "a spectrum of another length");
  group.data->read<double>(place->second.row, 1, out);
}

bool SpectraReader::read_block(SpectraPlace& place, SpectraBlock& out) {
  constexpr std::uint64_t kBlockBytes = 16U << 20U;
  const std::string parent = bulk_prefix(model::ResultTable::kMatrix) + "/spectra";
  const std::vector<std::string> names =
      file_.exists(parent) ? file_.list(parent) : std::vector<std::string>();
  for (; place.group < names.size(); ++place.group, place.row = 0) {
    const std::string group = parent + "/" + names[place.group];
    const std::vector<std::int64_t> members = members_of(group, model::ResultTable::kMatrix);
    const h5::Dataset dataset = file_.open_dataset(group + "/sigma");
    const h5::Shape& shape = dataset.shape();
    if (shape.size() != 2 || shape[0] != members.size() || shape[1] > (1U << 28U)) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + group), "wrong shape");
    }
    if (place.row >= members.size()) {
      continue;
    }
    out.group = place.group;
    out.width = shape[1];
    const std::uint64_t fitting =
        kBlockBytes / std::max<std::uint64_t>(out.width * sizeof(double), 1);
    const std::uint64_t count =
        std::min<std::uint64_t>(std::max<std::uint64_t>(fitting, 1), members.size() - place.row);
    const auto first = members.begin() + static_cast<std::ptrdiff_t>(place.row);
    out.rows.assign(first, first + static_cast<std::ptrdiff_t>(count));
    out.sigma.resize(count * out.width);
    dataset.read<double>(place.row, count, out.sigma);
    place.row += count;
    return true;
  }
  return false;
}

SingularVectors SpectraReader::read_vectors(std::int64_t row) {
  index();
  const auto found = vectors_.find(row);
  expects(found != vectors_.end(), "singular vectors that the file does not hold");
  Group& group = groups_[found->second.group];
  const std::uint64_t at = found->second.row;
  // They stay open: what is known of their values is known of the next row too.
  const auto open = [&](const std::string& name) -> const h5::Dataset& {
    const auto known = group.vectors.find(name);
    return known != group.vectors.end()
               ? known->second
               : group.vectors.emplace(name, file_.open_dataset(group.path + name)).first->second;
  };
  SingularVectors out;
  out.count = static_cast<std::int32_t>(group.width);
  const auto floats = [&](const char* name, std::vector<float>& values) {
    const h5::Dataset& dataset = open(name);
    if (dataset.shape().size() != 3 || dataset.shape()[1] != group.width) {
      throw FormatError("E-RESULTS-SCHEMA", printable(group.path + name), "wrong shape");
    }
    values.resize(dataset.shape()[1] * dataset.shape()[2]);
    dataset.read<float>(at, 1, values);
  };
  const auto doubles = [&](const char* name, std::vector<double>& values) {
    const h5::Dataset& dataset = open(name);
    if (dataset.shape().size() != 2 || dataset.shape()[1] != group.width) {
      throw FormatError("E-RESULTS-SCHEMA", printable(group.path + name), "wrong shape");
    }
    values.resize(group.width);
    dataset.read<double>(at, 1, values);
  };
  floats("/right", out.right);
  floats("/left", out.left);
  doubles("/sigma", out.sigma);
  doubles("/residual", out.residual);
  doubles("/gap", out.gap);
  return out;
}

}  // namespace vindex::results
