// Owns gathering a results file by tensors, and figures of groups.
#include "measured_model.hpp"

#include "core/json/json.hpp"
#include "results/reading/query.hpp"
#include "results/schema/table_layout.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace vindex::fleet {

namespace {

std::int64_t stored_count(const results::TensorEntry& tensor) {
  return tensor.stored.empty() ? 0
                               : 1 + std::count(tensor.stored.begin(), tensor.stored.end(), ' ');
}

/// The matrices of a tensor.
struct Slices {
  std::vector<std::size_t> rows;  ///< among those read
  std::size_t failed = 0;
  std::string reason;  ///< of the first that failed
};

std::map<std::string, Slices> slices_of(const std::vector<results::QueriedRow>& rows) {
  std::map<std::string, Slices> slices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Slices& tensor = slices[rows[i].tensor];
    tensor.rows.push_back(i);
    if (rows[i].status != MatrixStatus::kMeasured) {
      ++tensor.failed;
      if (tensor.reason.empty()) {
        tensor.reason = rows[i].reason;
      }
    }
  }
  return slices;
}

MeasuredTensor empty_tensor(const results::TensorEntry& tensor) {
  MeasuredTensor out;
  out.name = tensor.name;
  out.organ = organ::classify(tensor.name);
  out.shape = tensor.shape;
  out.type = tensor.encoding;
  out.parameters = tensor.count;
  out.scales = tensor.scales;
  out.scales_missing = tensor.scales_missing;
  return out;
}

ModelPart part_of(organ::OrganClass organ_class, model::Block block) {
  switch (organ_class) {
    case organ::OrganClass::kEmbed:
      return ModelPart::kEmbed;
    case organ::OrganClass::kSkeleton:
      return ModelPart::kSkeleton;
    case organ::OrganClass::kRouter:
      return ModelPart::kRouter;
    case organ::OrganClass::kOrgan:
      return block == model::Block::kRoutedExpert   ? ModelPart::kRouted
             : block == model::Block::kSharedExpert ? ModelPart::kShared
                                                    : ModelPart::kDense;
    default:
      return ModelPart::kOther;
  }
}

void add_vector(const results::TensorEntry& tensor, const statistics::SampleAngles& angles,
                ModelMeasure& model) {
  MeasuredTensor out = empty_tensor(tensor);
  out[TensorFigure::kThetaSeed].add(angles.theta_seed);
  out[TensorFigure::kThetaSeedNull].add(statistics::theta_seed_null(angles.count));
  out[TensorFigure::kSeedEntropy].add(angles.entropy);
  out[TensorFigure::kSeedKurtosis].add(angles.kurtosis);
  out[TensorFigure::kSeedCv].add(angles.spacing_cv);
  out[TensorFigure::kZModulus].add(tensor.scales.z_modulus);
  out[TensorFigure::kCsci].add(tensor.scales.csci);
  out[TensorFigure::kZSignFlip].add(tensor.scales.z_modulus_signflip);
  out[TensorFigure::kCsciSignFlip].add(tensor.scales.csci_signflip);
  out.theta_qq = angles.theta_qq;
  out.theta_qq_null = statistics::theta_qq_null(angles.count);
  out.remark = angles.is_constant ? "constant" : "";
  model.tensors.push_back(std::move(out));
}

}  // namespace

void Spread::add(double value, double weight) {
  if (std::isnan(value) || !(weight > 0.0)) {
    return;
  }
  weight_ += weight;
  const double step = value - mean_;
  mean_ += step * weight / weight_;
  squares_ += weight * step * (value - mean_);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  ++count_;
}

double Spread::sd() const {
  return count_ == 0 ? kNaN : std::sqrt(std::max(0.0, squares_ / weight_));
}

void ScaleSpread::add(const MeasuredTensor& tensor) {
  const statistics::ScaleFigures& figures = tensor.scales;
  if (!std::isnan(figures.z_modulus)) {
    z_modulus.add(figures.z_modulus);
    z_modulus_signflip.add(figures.z_modulus_signflip);
    z_modulus_null.add(figures.z_modulus_null);
    z_variance.add(figures.z_modulus_null_sd * figures.z_modulus_null_sd);
  }
  if (!std::isnan(figures.csci)) {
    csci.add(figures.csci);
    csci_signflip.add(figures.csci_signflip);
    csci_permuted.add(figures.csci_permuted);
    csci_variance.add(figures.csci_null_sd * figures.csci_null_sd);
  }
}

double ScaleSpread::z_null_sd() const {
  return std::sqrt(z_variance.mean() / static_cast<double>(z_variance.count()));
}
double ScaleSpread::csci_null_sd() const {
  return std::sqrt(csci_variance.mean() / static_cast<double>(csci_variance.count()));
}

std::int64_t ModelMeasure::parameters() const {
  std::int64_t sum = 0;
  for (const MeasuredTensor& tensor : tensors) {
    sum += tensor.parameters;
  }
  return sum;
}

ModelMeasure read_model_measure(const std::string& file) {
  const results::ResultsFile results(file);
  ModelMeasure model;
  model.results = file;
  model.path = results.attribute("model");
  model.mode = results.attribute("mode");
  model.backend = results.attribute("backend");
  const std::string text = results.run_text("config");
  const JsonValue config =
      text.empty() ? JsonValue() : parse_json(text, file + ": /run/config", {});
  const JsonValue* const architecture = config.find("architecture");
  if (architecture != nullptr && architecture->as_string() != nullptr) {
    model.architecture = *architecture->as_string();
  }
  const std::vector<results::QueriedRow> rows = results.rows();
  const std::vector<results::TensorEntry> tensors = results.tensors();
  if (std::all_of(tensors.begin(), tensors.end(),
                  [](const auto& tensor) { return tensor.organ_class.empty(); })) {
    throw UsageError("E-ORGAN-NOT-SAMPLED",
                     printable(file) + ": a file of `vindex measure`, which takes no samples");
  }
  std::vector<std::int64_t> numbers;
  for (const results::QueriedRow& row : rows) {
    numbers.push_back(row.number);
  }
  std::array<std::vector<double>, kTensorFigures> values;
  const std::int64_t minor = results::minor_version(results.schema_version());
  for (std::size_t figure = 0; figure < kTensorFigures; ++figure) {
    if (minor < kFigureRows[figure].since) {
      values[figure].assign(rows.size(), kNaN);
      continue;
    }
    const std::vector<double> all = results.numbers(kFigureRows[figure].column, numbers);
    const std::size_t width = rows.empty() ? 1 : all.size() / rows.size();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      values[figure].push_back(all[row * width + kFigureRows[figure].element]);
    }
  }
  const std::map<std::string, Slices> slices = slices_of(rows);
  for (const results::TensorEntry& tensor : tensors) {
    model.stored_counted += stored_count(tensor);
    const auto found = slices.find(tensor.name);
    if (found == slices.end()) {
      if (tensor.angles.count > 0 && !std::isnan(tensor.angles.theta_seed)) {
        add_vector(tensor, tensor.angles, model);
      } else {
        model.unmeasured.push_back({tensor.name, organ::classify(tensor.name),
                                    tensor.in_matrix ? "not selected" : tensor.reason});
      }
      continue;
    }
    const Slices& own = found->second;
    if (own.failed > 0) {
      model.unmeasured.push_back(
          {tensor.name, organ::classify(tensor.name),
           own.rows.size() == 1
               ? own.reason
               : fmt::format("{} of {} slices: {}", own.failed, own.rows.size(), own.reason)});
      continue;
    }
    MeasuredTensor measured = empty_tensor(tensor);
    measured.slices = static_cast<std::int64_t>(own.rows.size());
    measured.part = part_of(measured.organ.organ_class, rows[own.rows.front()].block);
    for (const std::size_t row : own.rows) {
      for (std::size_t figure = 0; figure < kTensorFigures; ++figure) {
        measured.figures[figure].add(values[figure][row]);
      }
      if (measured.remark.empty()) {
        measured.remark = rows[row].reason;
      }
    }
    model.tensors.push_back(std::move(measured));
  }
  return model;
}

void require_all_counted(const ModelMeasure& model, std::int64_t declared) {
  const auto refuse = [&](const std::string& what) {
    throw FormatError("E-ORGAN-COUNT", printable(model.path), what);
  };
  if (declared >= 0 && declared != model.tensors_total) {
    refuse(fmt::format("split.tensors.count is {}, the splits hold {}", declared,
                       model.tensors_total));
  }
  if (model.stored_counted != model.tensors_total) {
    refuse(fmt::format("{} tensors are measured or listed with a reason, the files hold {}",
                       model.stored_counted, model.tensors_total));
  }
}

std::string_view part_name(ModelPart part) {
  constexpr std::array<std::string_view, kModelParts> kNames = {
      "embed", "skeleton", "dense", "routed", "shared", "router", "other"};
  return kNames.at(static_cast<std::size_t>(part));
}

namespace {

bool is_feed_forward(const MeasuredTensor& tensor) {
  return tensor.part == ModelPart::kDense || tensor.part == ModelPart::kRouted ||
         tensor.part == ModelPart::kShared;
}

template <typename Wanted>
GroupStatistics figures_where(const ModelMeasure& model, Wanted wanted) {
  GroupStatistics out;
  for (const MeasuredTensor& tensor : model.tensors) {
    if (tensor.is_vector() || !wanted(tensor)) {
      continue;
    }
    const auto weight = static_cast<double>(tensor.parameters);
    const auto mean = [&](TensorFigure figure) { return tensor[figure].mean(); };
    ++out.tensors;
    out.parameters += tensor.parameters;
    out.theta.add(mean(TensorFigure::kTheta));
    out.theta_weighted.add(mean(TensorFigure::kTheta), weight);
    out.theta_null.add(mean(TensorFigure::kThetaNull), weight);
    out.signal.add(mean(TensorFigure::kSignal), weight);
    out.theta_seed.add(mean(TensorFigure::kThetaSeed));
    out.theta_seed_null.add(mean(TensorFigure::kThetaSeedNull));
    out.var64.add(mean(TensorFigure::kVarAt64), weight);
    out.var64_null.add(mean(TensorFigure::kVarAt64Null), weight);
    out.var64_over_null.add(mean(TensorFigure::kVarAt64) / mean(TensorFigure::kVarAt64Null),
                            weight);
    out.var64_excess.add((mean(TensorFigure::kVarAt64) - mean(TensorFigure::kVarAt64Null)) /
                             (1.0 - mean(TensorFigure::kVarAt64Null)),
                         weight);
    out.erank_over_null.add(
        mean(TensorFigure::kEffectiveRank) / mean(TensorFigure::kEffectiveRankNull), weight);
    out.scales.add(tensor);
  }
  return out;
}

}  // namespace

GroupStatistics group_statistics(const ModelMeasure& model, const organ::OrganClass* only) {
  return figures_where(model, [&](const MeasuredTensor& tensor) {
    return only == nullptr || tensor.organ.organ_class == *only;
  });
}

GroupStatistics part_statistics(const ModelMeasure& model, ModelPart part) {
  return figures_where(model, [&](const MeasuredTensor& tensor) { return tensor.part == part; });
}

GroupStatistics feed_forward_statistics(const ModelMeasure& model) {
  return figures_where(model, is_feed_forward);
}

std::string feed_forward_encoding(const ModelMeasure& model) {
  std::map<std::string, std::int64_t> weights;
  for (const MeasuredTensor& tensor : model.tensors) {
    if (!tensor.is_vector() && is_feed_forward(tensor)) {
      weights[tensor.type] += tensor.parameters;
    }
  }
  const auto most =
      std::max_element(weights.begin(), weights.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == weights.end() ? std::string() : most->first;
}

VectorStatistics vector_statistics(const ModelMeasure& model, const organ::OrganClass* only) {
  VectorStatistics out;
  for (const MeasuredTensor& tensor : model.tensors) {
    if (!tensor.is_vector() || (only != nullptr && tensor.organ.organ_class != *only)) {
      continue;
    }
    ++out.tensors;
    out.parameters += tensor.parameters;
    out.theta_qq.add(tensor.theta_qq);
    out.theta_qq_null.add(tensor.theta_qq_null);
    out.theta_seed.add(tensor[TensorFigure::kThetaSeed].mean());
    out.theta_seed_null.add(tensor[TensorFigure::kThetaSeedNull].mean());
    out.scales.add(tensor);
  }
  return out;
}

}  // namespace vindex::fleet
