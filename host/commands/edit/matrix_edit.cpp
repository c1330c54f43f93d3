// Owns applying factors slab by slab, encoding, and measuring the change.
#include "matrix_edit.hpp"

#include "blas/blas.hpp"
#include "core/digest.hpp"
#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::edit {
namespace {

/// The factors in the stored orientation: stored W += left right, left stored rows x rank.
struct StoredFactors {
  std::vector<double> left;
  std::vector<double> right;
};

StoredFactors stored_factors(const model::MatrixRecord& matrix, const LowRankEdit& edit) {
  if (matrix.transposed) {
    return {transposed_of<double>(edit.a, edit.rank, edit.cols),
            transposed_of<double>(edit.b, edit.rows, edit.rank)};
  }
  return {{edit.b.begin(), edit.b.end()}, {edit.a.begin(), edit.a.end()}};
}

/// Encodes the new weights of slab after slab.
class Encoder {
 public:
  Encoder(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
          write::ScratchFile& scratch)
      : watch_(watch), matrix_(matrix), scratch_(scratch), where_(model::matrix_name(matrix)) {
    if (const model::CompanionPart* scale = scale_part()) {
      scales_.resize(scale->part.bytes);
      engine::read_part(watch, scale->part, scales_);
      old_scales_ = scales_;
    }
  }

  /// `values` becomes what the new bytes stand for.
  void run(const Slab& slab, std::vector<float>& values) {
    const decode::CodeWindow window = decode::code_window(slab.encoded);
    codes_.resize(as_size(window.width * window.height));
    counts_.add(
        decode::rewrite_matrix(slab.encoded, values.data(), slab.cols, codes_, scales_, where_));
    decode::EncodedMatrix written = decode::with_codes(slab.encoded, codes_.data());
    for (decode::Companion& companion : written.companions) {
      if (companion.role == decode::CompanionRole::kScale && !companion.bytes.empty()) {
        companion.bytes = scales_;
      }
    }
    decode::decode_matrix(written, values.data(), slab.cols);
    const std::uint64_t start = scratch_.append(codes_);
    if (slab.first == 0) {
      start_ = start;
    }
    expects(start == start_ + written_, "an encoder that has the scratch file for itself");
    written_ += codes_.size();
  }

  void finish(std::vector<NewPart>& parts) {
    expects(written_ == matrix_.codes.bytes, "as many new bytes as there were");
    parts.push_back(part(matrix_.codes, start_));
    if (const model::CompanionPart* scale = scale_part();
        scale != nullptr && scales_ != old_scales_) {
      parts.push_back(part(scale->part, scratch_.append(scales_)));
    }
  }
  const decode::RewriteCounts& counts() const { return counts_; }

 private:
  const model::CompanionPart* scale_part() const {
    const auto found = std::find_if(
        matrix_.companions.begin(), matrix_.companions.end(),
        [](const auto& companion) { return companion.role == decode::CompanionRole::kScale; });
    return found == matrix_.companions.end() ? nullptr : &*found;
  }
  NewPart part(const model::TensorPart& of, std::uint64_t scratch) const {
    const auto& tensor = watch_.files().tensors[static_cast<std::size_t>(of.tensor)];
    return {of.tensor, of.offset - tensor.offset, scratch, of.bytes};
  }

  engine::SourceWatch& watch_;
  const model::MatrixRecord& matrix_;
  write::ScratchFile& scratch_;
  std::string where_;
  std::vector<std::byte> codes_, scales_, old_scales_;
  std::uint64_t start_ = 0, written_ = 0;
  decode::RewriteCounts counts_;
};

}  // namespace

std::optional<MatrixChange> edit_matrix(engine::SourceWatch& watch,
                                        const model::MatrixRecord& matrix, const LowRankEdit& edit,
                                        const MatrixEditOptions& options,
                                        std::vector<NewPart>& parts) {
  expects(edit.rows == matrix.rows && edit.cols == matrix.cols, "an edit of the matrix's shape");
  const StoredFactors factors = stored_factors(matrix, edit);
  std::optional<Encoder> encoder;
  if (options.scratch != nullptr) {
    encoder.emplace(watch, matrix, *options.scratch);
  }
  std::optional<VectorImage> image_before;
  std::optional<VectorImage> image_after;
  if (options.direction != nullptr) {
    image_before.emplace(matrix, *options.direction);
    image_after.emplace(matrix, *options.direction);
  }
  std::vector<ProbeSums> probes;
  for (const Probe& probe : options.probes) {
    probes.emplace_back(matrix, probe);
  }
  std::optional<CovarianceSums> covariance;
  if (options.covariance != nullptr) {
    covariance.emplace(matrix, *options.covariance);
  }
  double norm = 0.0;
  double edited = 0.0;
  double written = 0.0;
  double lost = 0.0;
  double inner = 0.0;
  Sha256 before;
  Sha256 after;
  std::vector<double> delta;
  std::vector<float> values;
  std::vector<float> difference;
  const auto rank = static_cast<int>(edit.rank);
  const bool whole = each_slab(watch, matrix, [&](const Slab& slab) {
    if (options.stop.stop_requested()) {
      return false;
    }
    delta.resize(slab.values.size());
    values.resize(slab.values.size());
    difference.resize(slab.values.size());
    blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans,
                             static_cast<int>(slab.count), static_cast<int>(slab.cols), rank, 1.0,
                             factors.left.data() + slab.first * edit.rank, rank,
                             factors.right.data(), static_cast<int>(slab.cols), 0.0, delta.data(),
                             static_cast<int>(slab.cols));
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Where nothing is added the bits stay, those of -0 too.
      values[i] = delta[i] == 0.0
                      ? slab.values[i]
                      : static_cast<float>(static_cast<double>(slab.values[i]) + delta[i]);
    }
    if (encoder) {
      encoder->run(slab, values);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double old = slab.values[i];
      const double change = static_cast<double>(values[i]) - old;
      difference[i] = static_cast<float>(change);
      norm += old * old;
      edited += delta[i] * delta[i];
      written += change * change;
      inner += change * delta[i];
      lost += (change - delta[i]) * (change - delta[i]);
    }
    before.update(std::as_bytes(std::span(slab.values)));
    after.update(std::as_bytes(std::span(values)));
    if (options.direction != nullptr) {
      image_before->add(slab, slab.values);
      image_after->add(slab, values);
    }
    for (ProbeSums& probe : probes) {
      probe.add(slab, difference);
    }
    if (covariance) {
      covariance->add(slab, difference);
    }
    return true;
  });
  if (!whole) {
    return std::nullopt;
  }
  MatrixChange out;
  out.norm = std::sqrt(norm);
  out.edit_norm = std::sqrt(edited);
  out.written_norm = std::sqrt(written);
  out.encoding_norm = std::sqrt(lost);
  out.arrived = edited > 0.0 ? inner / edited : 1.0;
  if (options.direction != nullptr) {
    out.direction_before = image_before->norm();
    out.direction_after = image_after->norm();
  }
  for (ProbeSums& probe : probes) {
    out.probes.push_back(probe.finish());
  }
  if (covariance) {
    out.covariance = covariance->finish();
  }
  if (encoder) {
    encoder->finish(parts);
    out.counts = encoder->counts();
  }
  out.before = hex(before.finish());
  out.after = hex(after.finish());
  return out;
}

std::vector<double> image_of(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                             const Direction& direction) {
  VectorImage image(matrix, direction);
  each_slab(watch, matrix, [&](const Slab& slab) {
    image.add(slab, slab.values);
    return true;
  });
  return image.image();
}

std::string weights_digest(engine::SourceWatch& watch, const model::MatrixRecord& matrix) {
  Sha256 digest;
  each_slab(watch, matrix, [&](const Slab& slab) {
    digest.update(std::as_bytes(std::span(slab.values)));
    return true;
  });
  return hex(digest.finish());
}

std::vector<double> weights_row(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                                std::int64_t row) {
  std::vector<double> out(as_size(matrix.cols));
  each_slab(watch, matrix, [&](const Slab& slab) {
    if (matrix.transposed) {
      for (std::int64_t i = 0; i < slab.count; ++i) {
        out[as_size(slab.first + i)] = slab.values[as_size(i * slab.cols + row)];
      }
    } else if (row >= slab.first && row < slab.first + slab.count) {
      const auto start = slab.values.begin() + (row - slab.first) * slab.cols;
      std::copy(start, start + slab.cols, out.begin());
      return false;
    }
    return true;
  });
  return out;
}

bool can_encode(engine::SourceWatch& watch, const model::MatrixRecord& matrix) {
  const auto input = engine::make_streamed_input(watch, matrix);
  const std::int64_t rows =
      std::min(matrix.stored_rows(), std::max<std::int64_t>(1, matrix.encoding.block_rows));
  return decode::is_rewritable(input->row_slab(0, rows));
}

}  // namespace vindex::edit
