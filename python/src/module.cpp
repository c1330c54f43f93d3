// The module vindex._native: the calls of <vindex/vindex.hpp> that work within the process. It is
// typed in vindex/_native.pyi; the package's own functions wrap what it gives.
#include "interruptible.hpp"
#include "weights.hpp"

#include <vindex/vindex.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace vindex_python {
namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

/// Hands over the environment as it is now: Python changes it under its lock, which whoever calls
/// this has and the work does not.
void hand_over_environment() {
  auto variables = std::make_shared<Environment>();
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string text = *line;
    if (const std::size_t equals = text.find('='); equals != std::string::npos) {
      variables->emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  vindex::set_environment([variables](const char* name) {
    const auto found = variables->find(std::string_view(name));
    return found == variables->end() ? std::string() : found->second;
  });
}

/// `values` as a numpy array of `shape`, which keeps them: nothing is copied.
template <typename T>
nb::object array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = kept->data();
  nb::capsule owner(kept.get(),
                    [](void* memory) noexcept { delete static_cast<std::vector<T>*>(memory); });
  (void)kept.release();
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

nb::dict figures_of(const vindex::Figures& figures) {
  nb::dict out;
  for (const auto& [name, value] : figures.all()) {
    out[name.c_str()] = value;
  }
  return out;
}

vindex::Mode mode_of(const std::string& mode) {
  if (mode == "fast") {
    return vindex::Mode::kFast;
  }
  if (mode == "default") {
    return vindex::Mode::kDefault;
  }
  if (mode == "strict") {
    return vindex::Mode::kStrict;
  }
  throw vindex::UsageError(
      "E-MODE", "no mode `" + vindex::excerpt(mode) + "`; there are fast, default and strict");
}

nb::dict spectrum(nb::handle array, const std::string& mode, bool escalate,
                  const std::string& backend) {
  vindex::SpectrumSettings settings;
  settings.mode = mode_of(mode);
  settings.escalate = escalate;
  settings.backend = backend;
  const Weights weights(array);
  hand_over_environment();
  vindex::Spectrum found = interruptible([&](std::stop_token stop) {
    settings.stop = std::move(stop);
    std::vector<float> converted;
    return vindex::spectrum(weights.float32(converted), weights.rows(), weights.cols(), settings);
  });
  nb::dict out;
  const std::size_t count = found.sigma.size();
  out["sigma"] = array_of(std::move(found.sigma), {count});
  out["sigma_error"] = found.sigma_error;
  out["method"] = found.method;
  out["escalated"] = found.escalated;
  out["status"] = found.status;
  out["reason"] = found.reason;
  out["backend"] = found.backend;
  out["figures"] = figures_of(found.figures);
  return out;
}

nb::dict null(std::int64_t rows, std::int64_t cols) {
  std::optional<vindex::Null> found;
  {
    const nb::gil_scoped_release unlocked;
    found = vindex::null(rows, cols);
  }
  return figures_of(found->figures);
}

/// Weights as they are stored, and how many slices of how many rows and columns that is.
struct Decoded {
  std::vector<float> values;
  std::size_t slices = 0;  ///< 0: one matrix
  std::size_t rows = 0, cols = 0;
};

Decoded decoded(const vindex::Model& model, const std::string& tensor,
                std::optional<std::int32_t> slice) {
  std::vector<const vindex::Matrix*> wanted;
  for (const vindex::Matrix& matrix : model.matrices()) {
    if (matrix.tensor == tensor && (!slice || matrix.slice == *slice)) {
      wanted.push_back(&matrix);
    }
  }
  if (wanted.empty()) {
    vindex::Matrix absent;
    absent.tensor = tensor;
    absent.slice = slice.value_or(-1);
    (void)model.decode(absent);  // throws what is wrong
    vindex::fail_expectation("a matrix that is not there was decoded");
  }
  const vindex::Matrix& first = *wanted.front();
  Decoded out;
  out.rows = static_cast<std::size_t>(first.transposed ? first.cols : first.rows);
  out.cols = static_cast<std::size_t>(first.transposed ? first.rows : first.cols);
  if (slice || first.slice < 0) {
    out.values = model.decode(first);
    return out;
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const auto* a, const auto* b) { return a->slice < b->slice; });
  out.slices = wanted.size();
  const std::size_t each = out.rows * out.cols;
  out.values.resize(out.slices * each);
  for (std::size_t i = 0; i < out.slices; ++i) {
    const std::vector<float> values = model.decode(*wanted[i]);
    vindex::expects(values.size() == each, "slices of a stack have one shape");
    std::copy(values.begin(), values.end(),
              out.values.begin() + static_cast<std::ptrdiff_t>(i * each));
  }
  return out;
}

nb::object decode(nb::handle model, const std::string& tensor, std::optional<std::int32_t> slice) {
  const nb::object bytes = nb::module_::import_("os").attr("fsencode")(model);
  const std::string address(nb::borrow<nb::bytes>(bytes).c_str());
  hand_over_environment();
  Decoded found = interruptible([&](const std::stop_token& stop) {
    return decoded(vindex::open(address, stop), tensor, slice);
  });
  if (found.slices == 0) {
    return array_of(std::move(found.values), {found.rows, found.cols});
  }
  return array_of(std::move(found.values), {found.slices, found.rows, found.cols});
}

/// An error of the library is vindex.Error(code, id, text).
void translate(const std::exception_ptr& exception, void* /*payload*/) {
  try {
    std::rethrow_exception(exception);
  } catch (const vindex::Error& error) {
    std::string text = error.what();
    if (const std::string prefix = error.id() + ": "; text.starts_with(prefix)) {
      text.erase(0, prefix.size());
    }
    try {
      const nb::object type = nb::module_::import_("vindex.errors").attr("Error");
      PyErr_SetObject(type.ptr(),
                      type(static_cast<int>(error.exit_code()), error.id(), text).ptr());
    } catch (nb::python_error& raised) {  // by the import or the constructor
      raised.restore();
    }
  }
}

}  // namespace
}  // namespace vindex_python

NB_MODULE(_native, module) {
  nb::register_exception_translator(vindex_python::translate);
  module.doc() = "The calls of libvindex within the process; see vindex.spectrum, null, decode.";
  module.def("spectrum", vindex_python::spectrum, "array"_a.none(), nb::kw_only(),
             "mode"_a = "default", "escalate"_a = true, "backend"_a = "auto",
             "Singular values of a matrix, with every metric and its null by name.");
  module.def("null", vindex_python::null, "rows"_a, "cols"_a,
             "What noise of a shape gives, by the names of metrics and of their null columns.");
  module.def("decode", vindex_python::decode, "model"_a, "tensor"_a, "slice"_a = nb::none(),
             "The float32 weights of a matrix, or of all slices of a stack.");
  module.def("version", vindex::version, "Version of the library.");
}
