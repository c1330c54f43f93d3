// Owns the calls of the HDF5 C API behind these readers, and the handles that close what they hold.
#include "h5_support.hpp"

#include <hdf5.h>

#include <algorithm>
#include <stdexcept>

namespace vindex::testing {

namespace {

/// Closes what it holds.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) {
      throw std::runtime_error("cannot open " + what);
    }
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

struct OpenDataset {
  OpenDataset(const std::string& path, const std::string& name)
      : file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path),
        dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, path + ":" + name),
        space(H5Dget_space(dataset), H5Sclose, path + ":" + name) {
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > 2) {
      throw std::runtime_error("rank of " + path + ":" + name);
    }
    hsize_t sizes[2] = {1, 1};
    H5Sget_simple_extent_dims(space, sizes, nullptr);
    rows = sizes[0];
    columns = sizes[1];
  }
  Handle file, dataset, space;
  std::size_t rows = 0, columns = 0;
};

herr_t add_name(hid_t, const char* name, const H5L_info_t*, void* out) {
  static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}

}  // namespace

NumberTable read_numbers(const std::string& file, const std::string& dataset) {
  const OpenDataset open(file, dataset);
  NumberTable table;
  table.rows = open.rows;
  table.columns = open.columns;
  table.values.resize(open.rows * open.columns);
  if (H5Dread(open.dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, table.values.data()) <
      0) {
    throw std::runtime_error("cannot read " + file + ":" + dataset);
  }
  return table;
}

std::vector<std::string> read_strings(const std::string& file, const std::string& dataset) {
  const OpenDataset open(file, dataset);
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "string type");
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  std::vector<char*> texts(open.rows, nullptr);
  if (texts.empty()) {
    return {};
  }
  if (H5Dread(open.dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()) < 0) {
    throw std::runtime_error("cannot read " + file + ":" + dataset);
  }
  std::vector<std::string> strings;
  for (const char* text : texts) {
    strings.emplace_back(text == nullptr ? "" : text);
  }
  H5Dvlen_reclaim(type, open.space, H5P_DEFAULT, texts.data());
  return strings;
}

std::vector<std::string> list_group(const std::string& file, const std::string& group) {
  const Handle open(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
  const Handle node(H5Gopen2(open, group.c_str(), H5P_DEFAULT), H5Gclose, file + ":" + group);
  std::vector<std::string> names;
  H5Literate(node, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names);
  return names;
}

std::vector<MeasuredRow> read_rows(const std::string& file) {
  const auto text = [&](const char* name) {
    return read_strings(file, std::string("/matrix/") + name);
  };
  const auto number = [&](const char* name) {
    return read_numbers(file, std::string("/matrix/") + name);
  };
  const auto tensor = text("tensor"), block = text("block"), role = text("role"),
             encoding = text("encoding"), reason = text("reason"), method = text("method");
  const auto layer = number("layer"), expert = number("expert"), slice = number("slice"),
             rows = number("rows"), cols = number("cols"), status = number("status"),
             norm = number("frobenius_norm"), share = number("var_at_k"),
             null = number("var_at_k_null");
  std::vector<MeasuredRow> out(tensor.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto whole = [i](const NumberTable& table) {
      return static_cast<std::int64_t>(table.at(i));
    };
    out[i] = {tensor[i],    block[i],    role[i],      encoding[i],
              reason[i],    method[i],   whole(layer), whole(expert),
              whole(slice), whole(rows), whole(cols),  whole(status),
              {},           {},          norm.at(i),   {}};
    for (std::size_t k = 0; k < share.columns; ++k) {
      out[i].var_at_k.push_back(share.at(i, k));
      out[i].var_at_k_null.push_back(null.at(i, k));
    }
  }
  for (const std::string& group : list_group(file, "/spectra")) {
    const NumberTable sigma = read_numbers(file, "/spectra/" + group + "/sigma");
    const NumberTable matrix = read_numbers(file, "/spectra/" + group + "/matrix");
    for (std::size_t i = 0; i < sigma.rows; ++i) {
      const auto first = sigma.values.begin() + static_cast<std::ptrdiff_t>(i * sigma.columns);
      out.at(static_cast<std::size_t>(matrix.at(i)))
          .sigma.assign(first, first + static_cast<std::ptrdiff_t>(sigma.columns));
    }
  }
  return out;
}

MatrixKey key_of(const MeasuredRow& row) {
  return {row.layer, row.block, row.role, row.expert >= 0 ? row.expert : row.slice};
}

std::map<MatrixKey, MeasuredRow> by_key(const std::vector<MeasuredRow>& rows) {
  std::map<MatrixKey, MeasuredRow> map;
  for (const MeasuredRow& row : rows) {
    if (!map.emplace(key_of(row), row).second) {
      throw std::runtime_error("two rows of one key: " + row.tensor);
    }
  }
  return map;
}

std::size_t column_of_k(const std::string& file, int k) {
  const NumberTable scale = read_numbers(file, "/matrix/k");
  const auto found = std::find(scale.values.begin(), scale.values.end(), static_cast<double>(k));
  if (found == scale.values.end()) {
    throw std::runtime_error("no k = " + std::to_string(k) + " in " + file);
  }
  return static_cast<std::size_t>(found - scale.values.begin());
}

}  // namespace vindex::testing
