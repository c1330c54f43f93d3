// Any bytes as a GGUF or safetensors model: refused by this project's error, or written again with
// the same keys, tensors and bytes, and then once more bit for bit. GGUF names that ggml does not
// load are read, but not written again.
#include "input/open/open_model.hpp"
#include "write/rewrite_model.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>
#include <unistd.h>

using namespace vindex;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("vindex-rewrite-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
};

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// By name: empty tensors may change places.
auto tensors_of(const input::ModelFiles& model) {
  std::map<std::string, std::tuple<decode::ElementType, std::vector<std::int64_t>, std::string>>
      tensors;
  for (const input::StoredTensor& tensor : model.tensors) {
    std::string bytes(tensor.bytes, '\0');
    if (tensor.bytes > 0) {  // others may lie behind the end of a file without its last padding
      model.shards.front().source->read(tensor.offset, std::as_writable_bytes(std::span(bytes)));
    }
    tensors[tensor.name] = {tensor.type, tensor.shape, bytes};
  }
  return tensors;
}

/// All of the keys but where they lie. As text, so that not-a-number equals itself.
std::string keys_of(const input::ModelFiles& model) {
  std::ostringstream out;
  out << std::hexfloat;
  for (const gguf::Key& key : model.keys) {
    out << key.name << ' ' << static_cast<int>(key.type) << ' '
        << static_cast<int>(key.element_type) << ' ' << key.array_count << ": ";
    std::visit([&](const auto& value) { out << value; }, key.value);
    for (const std::int64_t integer : key.integers) {
      out << ' ' << integer;
    }
    out << '\n';
  }
  return out.str();
}

bool has_names_beyond_ggml(const input::ModelFiles& model) {
  return model.format == input::ContainerFormat::kGguf &&
         std::any_of(model.tensors.begin(), model.tensors.end(),
                     [](const input::StoredTensor& tensor) { return tensor.name.size() > 63; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string ending = bytes.starts_with("GGUF") ? ".gguf" : ".safetensors";
  const auto path = [&](const char* name) { return (scratch.folder / name).string() + ending; };
  std::ofstream(path("source"), std::ios::binary) << bytes;
  input::ModelFiles model;
  try {
    model = input::open_model(path("source"));
  } catch (const Error&) {
    return 0;
  }
  try {
    write::rewrite_model(model, path("once"), {}, {.replace = true});
  } catch (const Error& error) {
    if (has_names_beyond_ggml(model) && error.id() == "E-GGUF-NAME") {
      return 0;
    }
    throw;
  }
  const input::ModelFiles copy = input::open_model(path("once"));
  write::rewrite_model(copy, path("twice"), {}, {.replace = true});
  if (tensors_of(copy) != tensors_of(model) || keys_of(copy) != keys_of(model) ||
      file_text(path("once")) != file_text(path("twice"))) {
    std::abort();
  }
  return 0;
}
