// Owns the block iteration of host/cpu/top/chebyshev.cpp, which has the formulas and why, for a
// batch: members leave as their residuals are small enough. A step is other <- scale (G X - c X) -
// keep other, the scaled recurrence of Zhou, Saad, Tiago, Chelikowsky 2006, products by cuBLAS.
//
// First rounds multiply in tf32, several times as fast: a filter only has to damp, and what it
// leaves wrong the Ritz step in full precision shows as a residual. kRoughResidual and kMinGain say
// when that no longer pays.
#include "top_subspace.hpp"

#include "core/integers.hpp"
#include "core/philox.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1024;
constexpr std::int32_t kMaxRounds = 8;
constexpr int kMaxDegree = 10;
constexpr int kFirstDegree = 4;
/// Largest ratio a filter may put between two directions of the block: float32 keeps the smaller
/// one to 1e-3, and the next round repairs that. Without the cap a steep spectrum destroys the
/// block.
constexpr double kMaxGrowth = 1e4;

/// tf32 rounds operands to 2^-12 of their size, which leaves residuals of some 2^-11 of the largest
/// value. Above this share of it a round in tf32 gains what one in float32 does.
constexpr double kRoughResidual = 0x1p-8;
/// ... unless the last round gained less than this factor.
constexpr double kMinGain = 2.0;

/// The largest residual of the half of a block that is wanted, not the guards'.
double worst_residual(std::span<const double> residuals) {
  const auto wanted = static_cast<std::ptrdiff_t>((residuals.size() + 1) / 2);
  return *std::max_element(residuals.begin(), residuals.begin() + wanted);
}

int degree_for(double top, double cut) {
  const double rate = std::acosh(std::max(2.0 * top / cut - 1.0, 1.0 + 1e-6));
  return std::clamp(static_cast<int>(std::acosh(kMaxGrowth) / rate), 2, kMaxDegree);
}

/// One step of the recurrence: other := scale (product - half current) - keep other.
struct FilterStep {
  const float* product;
  const float* current;
  float* other;
  float scale, half, keep;
};

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory (three blocks of vectors).
__global__ void filter_kernel(const FilterStep* steps, std::int64_t elements) {
  const FilterStep step = steps[blockIdx.y];
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const float value = step.scale * fmaf(-step.half, step.current[i], step.product[i]);
    // The first step has no term before: what `other` holds then may be anything.
    step.other[i] = step.keep == 0.0F ? value : fmaf(-step.keep, step.other[i], value);
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: integer arithmetic of Philox.
__global__ void start_kernel(float* blocks, std::int64_t stride, std::int64_t elements) {
  float* own = blocks + static_cast<std::int64_t>(blockIdx.y) * stride;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const PhiloxBlock words = philox4x32_10({{static_cast<std::uint32_t>(i / 4), 0, 0, 1}}, 0);
    own[i] = static_cast<float>(words.word[i % 4]) * 0x1p-31F - 1.0F;
  }
}

// Norms of image - value * basis by column.
// Grid: columns x matrices. Block: 32. Shared: none. Bound by: memory.
__global__ void residual_kernel(const double* images, const double* bases, std::int64_t p,
                                std::int64_t width, const double* values, double* norms) {
  const std::int64_t column = blockIdx.y * width + blockIdx.x;
  const double* image = images + column * p;
  const double* basis = bases + column * p;
  const double value = values[column];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < p; i += 32) {
    const double rest = fma(-value, basis[i], image[i]);
    sum = fma(rest, rest, sum);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
  }
  if (threadIdx.x == 0) {
    norms[column] = sqrt(sum);
  }
}

dim3 element_grid(std::int64_t elements, std::int64_t batch) {
  return dim3(static_cast<unsigned int>(
                  std::clamp<std::int64_t>(ceil_divide(elements, kThreads), 1, kMaxBlocks)),
              static_cast<unsigned int>(batch));
}

/// Cuts one device buffer into arrays for the host to fill and the device to read.
class Uploads {
 public:
  template <typename T>
  std::size_t add(const std::vector<T>& values) {
    const std::size_t offset = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(offset + values.size() * sizeof(T));
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T),
                bytes_.data() + offset);
    return offset;
  }
  std::byte* send(DeviceBuffer& buffer, cudaStream_t stream) const {
    auto* to = static_cast<std::byte*>(buffer.reserve(std::max<std::size_t>(bytes_.size(), 16)));
    check(cudaMemcpyAsync(to, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice, stream));
    return to;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

/// One matrix on its way. `current` is its block; `other` takes the next one.
struct SubspaceFinder::Member {
  std::size_t index = 0;
  GramView gram;
  float* current = nullptr;
  float* other = nullptr;
  float* product = nullptr;
  double cut = 0.0, top = 0.0;
  int degree = 0;
  bool rough = true;  ///< the next filter may run in tf32
  double residual = std::numeric_limits<double>::infinity();
  TopSubspace* out = nullptr;

  /// What follows for the next round from the values and residuals of the last one.
  void plan_next() {
    const double worst = worst_residual(out->residuals);
    top = out->values.front() + out->residuals.front();
    cut = std::max(out->values.back(), 1e-4 * top);
    degree = degree_for(top, cut);
    rough = rough && worst > kRoughResidual * top && kMinGain * worst < residual;
    residual = worst;
  }
};

/// Damps what belongs to eigenvalues in [0, cut] of each member; the filter is 1 at `top`.
/// `rough`: products in tf32.
void SubspaceFinder::filter(const LibraryHandles& handles, std::span<Member*> members,
                            std::int64_t p, std::int64_t width, bool rough) {
  if (members.empty()) {
    return;
  }
  std::optional<RoughProducts> tf32;
  if (rough) {
    tf32.emplace(handles.blas);
  }
  struct Step {
    std::size_t grams = 0, currents = 0, products = 0, steps = 0;  ///< offsets
    std::int64_t count = 0;
  };
  Uploads uploads;
  std::vector<Step> plan;
  std::vector<double> ratios(members.size(), 0.0);
  int most = 0;
  for (const Member* member : members) {
    most = std::max(most, member->degree);
  }
  for (int degree = 1; degree <= most; ++degree) {
    std::vector<const float*> grams;
    std::vector<const float*> currents;
    std::vector<float*> products;
    std::vector<FilterStep> steps;
    for (std::size_t i = 0; i < members.size(); ++i) {
      Member& member = *members[i];
      if (member.degree < degree) {
        continue;
      }
      const double half = member.cut / 2.0;
      const double first = half / (member.top - half);
      const double next = degree == 1 ? first : 1.0 / (2.0 / first - ratios[i]);
      const double scale = (degree == 1 ? next : 2.0 * next) / half;
      const double keep = degree == 1 ? 0.0 : ratios[i] * next;
      ratios[i] = next;
      grams.push_back(member.gram.data);
      currents.push_back(member.current);
      products.push_back(member.product);
      steps.push_back({member.product, member.current, member.other, static_cast<float>(scale),
                       static_cast<float>(half), static_cast<float>(keep)});
      std::swap(member.current, member.other);
    }
    plan.push_back({uploads.add(grams), uploads.add(currents), uploads.add(products),
                    uploads.add(steps), static_cast<std::int64_t>(steps.size())});
  }
  const std::byte* base = uploads.send(pointers_, handles.stream);
  const float one = 1.0F;
  const float zero = 0.0F;
  const int leading = blas_int(members[0]->gram.leading);
  for (const Step& step : plan) {
    check(cublasSgemmBatched(
        handles.blas, CUBLAS_OP_N, CUBLAS_OP_N, blas_int(p), blas_int(width), blas_int(p), &one,
        reinterpret_cast<const float* const*>(base + step.grams), leading,
        reinterpret_cast<const float* const*>(base + step.currents), blas_int(p), &zero,
        reinterpret_cast<float* const*>(base + step.products), blas_int(p), blas_int(step.count)));
    launch(filter_kernel, element_grid(p * width, step.count), dim3(kThreads), 0, handles.stream,
           reinterpret_cast<const FilterStep*>(base + step.steps), p * width);
  }
}

/// Replaces the members' blocks by Ritz vectors, descending, and fills values and residuals.
void SubspaceFinder::rayleigh_ritz(const LibraryHandles& handles, std::span<Member*> members,
                                   std::int64_t p, std::int64_t width) {
  const auto batch = static_cast<std::int64_t>(members.size());
  const auto room = [batch](std::int64_t elements) {
    return static_cast<std::size_t>(batch * elements);
  };
  const StackedBlock shape = {p, width};
  const std::int64_t block = p * width;
  const std::int64_t square = width * width;
  auto* stacked = stacked_.reserve_array<double>(room(shape.elements()));
  auto* images = images_.reserve_array<double>(room(shape.elements()));
  auto* rotated = rotated_.reserve_array<double>(2 * room(block));
  auto* projected = small_.reserve_array<double>(room(square + 2 * width + 2));
  double* values = projected + batch * square;
  double* norms = values + batch * width;
  auto* info = reinterpret_cast<int*>(norms + batch * width);  // of the basis, of the eigenpairs

  Uploads uploads;
  std::vector<const float*> grams;
  std::vector<float*> currents;
  std::vector<float*> products;
  for (const Member* member : members) {
    grams.push_back(member->gram.data);
    currents.push_back(member->current);
    products.push_back(member->product);
  }
  const std::size_t gram_offset = uploads.add(grams);
  const std::size_t current_offset = uploads.add(currents);
  const std::size_t product_offset = uploads.add(products);
  const std::byte* base = uploads.send(pointers_, handles.stream);
  const auto* current_list = reinterpret_cast<const float* const*>(base + current_offset);
  const auto* writable_list = reinterpret_cast<float* const*>(base + current_offset);

  widen_blocks(current_list, shape, stacked, batch, handles.stream);
  orthonormalise(handles, shape, stacked, batch, false, info);
  const Operand basis = {shape.block(stacked), shape.leading(), shape.elements(), false};
  Operand basis_turned = basis;
  basis_turned.transposed = true;
  narrow_blocks(basis.data, basis.leading, basis.stride, writable_list, p, width, batch,
                handles.stream);
  const float one = 1.0F;
  const float zero = 0.0F;
  check(cublasSgemmBatched(
      handles.blas, CUBLAS_OP_N, CUBLAS_OP_N, blas_int(p), blas_int(width), blas_int(p), &one,
      reinterpret_cast<const float* const*>(base + gram_offset), blas_int(members[0]->gram.leading),
      current_list, blas_int(p), &zero, reinterpret_cast<float* const*>(base + product_offset),
      blas_int(p), blas_int(batch)));
  widen_blocks(reinterpret_cast<const float* const*>(base + product_offset), shape, images, batch,
               handles.stream);
  const Operand image = {shape.block(images), shape.leading(), shape.elements(), false};
  multiply_batch(handles, width, width, p, basis_turned, image, projected, width, square, batch);
  eigen_.solve(handles, projected, width, batch, true, values, info + batch);
  const Operand turn = {projected, width, square, false};
  double* ritz = rotated;
  double* ritz_image = rotated + batch * block;
  multiply_batch(handles, p, width, width, basis, turn, ritz, p, block, batch);
  multiply_batch(handles, p, width, width, image, turn, ritz_image, p, block, batch);
  narrow_blocks(ritz, p, block, writable_list, p, width, batch, handles.stream);
  launch(residual_kernel, dim3(static_cast<unsigned int>(width), static_cast<unsigned int>(batch)),
         dim3(32), 0, handles.stream, ritz_image, ritz, p, width, values, norms);

  std::vector<double> host(room(2 * width));
  std::vector<int> status(2 * members.size());
  check(cudaMemcpyAsync(host.data(), values, host.size() * sizeof(double), cudaMemcpyDeviceToHost,
                        handles.stream));
  check(cudaMemcpyAsync(status.data(), info, status.size() * sizeof(int), cudaMemcpyDeviceToHost,
                        handles.stream));
  check(cudaStreamSynchronize(handles.stream));
  for (std::size_t i = 0; i < members.size(); ++i) {
    TopSubspace& out = *members[i]->out;
    const auto first = host.begin() + static_cast<std::ptrdiff_t>(i) * width;
    const auto norm = first + batch * width;
    out.values.assign(first, first + width);
    out.residuals.assign(norm, norm + width);
    // A block that lost its rank shows as a value that is no number.
    out.converged =
        status[i] == 0 && std::all_of(out.values.begin(), out.values.end(),
                                      [](double value) { return std::isfinite(value); });
    out.basis = members[i]->current;
    ++out.rounds;
  }
}

std::vector<TopSubspace> SubspaceFinder::find(const LibraryHandles& handles,
                                              std::span<const GramView> grams, std::int64_t p,
                                              std::int64_t width, const Enough& enough) {
  expects(width >= 1 && width <= p, "find: a block no wider than the matrix");
  std::vector<TopSubspace> found(grams.size());
  if (grams.empty()) {
    return found;
  }
  const std::int64_t block = p * width;
  const auto count = static_cast<std::int64_t>(grams.size());
  auto* blocks = blocks_.reserve_array<float>(static_cast<std::size_t>(2 * count * block));
  auto* products = products_.reserve_array<float>(static_cast<std::size_t>(count * block));
  std::vector<Member> members(grams.size());
  std::vector<Member*> active;
  for (std::size_t i = 0; i < grams.size(); ++i) {
    Member& member = members[i];
    const auto at = static_cast<std::int64_t>(i);
    expects(grams[i].frobenius > 0.0 && grams[i].leading == grams[0].leading,
            "find: matrices that are not zero and lie alike");
    member = {.index = i,
              .gram = grams[i],
              .current = blocks + 2 * at * block,
              .other = blocks + (2 * at + 1) * block,
              .product = products + at * block,
              // The mean eigenvalue lies below the wanted ones, the Frobenius norm above all.
              .cut = grams[i].trace / static_cast<double>(p),
              .top = grams[i].frobenius,
              .degree = kFirstDegree,
              .out = &found[i]};
    active.push_back(&member);
  }
  launch(start_kernel, element_grid(block, count), dim3(kThreads), 0, handles.stream, blocks,
         2 * block, block);
  while (!active.empty()) {
    // Rough ones first; the order within a batch changes nothing of a matrix.
    const auto precise = std::stable_partition(active.begin(), active.end(),
                                               [](const Member* member) { return member->rough; });
    filter(handles, {active.begin(), precise}, p, width, true);
    filter(handles, {precise, active.end()}, p, width, false);
    rayleigh_ritz(handles, active, p, width);
    std::vector<Member*> rest;
    for (Member* member : active) {
      const TopSubspace& out = *member->out;
      if (!out.converged || out.rounds == kMaxRounds ||
          enough(member->index, out.values, out.residuals)) {
        continue;
      }
      member->plan_next();
      rest.push_back(member);
    }
    active = std::move(rest);
  }
  return found;
}

std::uint64_t subspace_bytes(std::int64_t p, std::int64_t width, std::int64_t batch) {
  const StackedBlock shape = {p, width};
  const std::int64_t floats = 3 * p * width;
  const std::int64_t doubles = 2 * shape.elements() + 2 * p * width + width * width + 2 * width + 2;
  return static_cast<std::uint64_t>(batch) * (static_cast<std::uint64_t>(floats) * sizeof(float) +
                                              static_cast<std::uint64_t>(doubles) * sizeof(double));
}

}  // namespace vindex::kernels
