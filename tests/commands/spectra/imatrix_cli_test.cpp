// `--imatrix` as a user runs it: a trained mixture of experts with the importance matrix that
// llama.cpp made of it, in both containers and both formats of the importance matrix.
#include "tests/support/known_spectra.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <set>

namespace vindex::testing::imatrix_cli_test {
namespace {

/// The tensors of a GGUF file that holds nothing but F32, read without the project's code.
class PlainGguf {
 public:
  explicit PlainGguf(const std::string& path) : bytes_(file_text(path)) {
    at_ = 8;
    const auto tensors = number<std::uint64_t>();
    const auto keys = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      (void)text();
      skip_value(number<std::uint32_t>());
    }
    struct Place {
      std::string name;
      std::uint64_t count, offset;
    };
    std::vector<Place> places;
    for (std::uint64_t i = 0; i < tensors; ++i) {
      Place place{text(), 1, 0};
      const auto rank = number<std::uint32_t>();
      for (std::uint32_t d = 0; d < rank; ++d) {
        place.count *= number<std::uint64_t>();
      }
      (void)number<std::uint32_t>();
      place.offset = number<std::uint64_t>();
      places.push_back(place);
      order.push_back(place.name);
    }
    const std::uint64_t data = (at_ + 31) / 32 * 32;
    for (const Place& place : places) {
      std::vector<float>& values = tensors_[place.name];
      values.resize(place.count);
      std::memcpy(values.data(), bytes_.data() + data + place.offset, 4 * place.count);
    }
  }
  const std::vector<float>& at(const std::string& name) const { return tensors_.at(name); }
  std::vector<std::string> order;

 private:
  template <typename T>
  T number() {
    T value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    const auto length = number<std::uint64_t>();
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  void skip_value(std::uint32_t type) {
    static const std::map<std::uint32_t, int> kBytes = {
        {0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}, {6, 4}, {7, 1}, {10, 8}, {11, 8}, {12, 8}};
    if (type == 8) {
      (void)text();
    } else if (type == 9) {
      const auto element = number<std::uint32_t>();
      for (auto left = number<std::uint64_t>(); left > 0; --left) {
        skip_value(element);
      }
    } else {
      at_ += static_cast<std::uint64_t>(kBytes.at(type));
    }
  }
  std::string bytes_;
  std::uint64_t at_ = 0;
  std::map<std::string, std::vector<float>> tensors_;
};

class ImatrixCliTest : public ProgramTest {
 protected:
  const std::string imatrix_ = data_ + "/gguf/variants/moe.imatrix.gguf";

  /// The same activations as llama.cpp's older format holds them: means times calls.
  std::string legacy_file() {
    const PlainGguf gguf(imatrix_);
    std::ofstream out(folder_.file("moe.dat"), std::ios::binary);
    const auto put = [&](std::int32_t value) {
      out.write(reinterpret_cast<const char*>(&value), sizeof value);
    };
    std::vector<std::string> names;
    for (const std::string& name : gguf.order) {
      if (name.ends_with(".in_sum2")) {
        names.push_back(name.substr(0, name.size() - 8));
      }
    }
    put(static_cast<std::int32_t>(names.size()));
    constexpr std::int32_t kCalls = 234;
    for (const std::string& name : names) {
      std::vector<float> values = gguf.at(name + ".in_sum2");
      const std::vector<float>& counts = gguf.at(name + ".counts");
      put(static_cast<std::int32_t>(name.size()));
      out << name;
      put(kCalls);
      put(static_cast<std::int32_t>(values.size()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = values[i] / counts[i * counts.size() / values.size()] * kCalls;
      }
      out.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(4 * values.size()));
    }
    put(kCalls);
    put(7);
    out << "cal.txt";
    return folder_.file("moe.dat");
  }

  /// Spectrum by row of /imatrix/.
  static std::map<std::int64_t, std::vector<double>> spectra_of(const std::string& file) {
    std::map<std::int64_t, std::vector<double>> out;
    for (const std::string& group : list_group(file, "/imatrix/spectra")) {
      const std::string path = "/imatrix/spectra/" + group;
      const NumberTable rows = read_numbers(file, path + "/matrix");
      const NumberTable sigma = read_numbers(file, path + "/sigma");
      for (std::size_t i = 0; i < rows.rows; ++i) {
        auto& values = out[static_cast<std::int64_t>(rows.at(i))];
        for (std::size_t j = 0; j < sigma.columns; ++j) {
          values.push_back(sigma.at(i, j));
        }
      }
    }
    return out;
  }
  /// What identifies a row of /imatrix/ in either container, and its number.
  static std::map<MatrixKey, std::int64_t> keys_of(const std::string& file) {
    const auto block = read_strings(file, "/imatrix/block");
    const auto role = read_strings(file, "/imatrix/role");
    const NumberTable layer = read_numbers(file, "/imatrix/layer");
    const NumberTable expert = read_numbers(file, "/imatrix/expert");
    const NumberTable slice = read_numbers(file, "/imatrix/slice");
    std::map<MatrixKey, std::int64_t> keys;
    for (std::size_t i = 0; i < block.size(); ++i) {
      keys[{static_cast<std::int64_t>(layer.at(i)), block[i], role[i],
            static_cast<std::int64_t>(std::max(expert.at(i), slice.at(i)))}] =
          static_cast<std::int64_t>(i);
    }
    return keys;
  }
};

// Every factor and weight is read here, the product made in float64 and given to LAPACK.
TEST_F(ImatrixCliTest, SpectraAreThoseOfTheWeightedMatrices) {
  VINDEX_NEEDS(imatrix_);
  const std::string file = measured(mixture_gguf_, "strict",
                                    {"--imatrix", imatrix_, "--mode", "strict", "--layers", "0,2"});
  const PlainGguf sums(imatrix_);
  const auto tensor = read_strings(file, "/imatrix/tensor");
  const NumberTable slice = read_numbers(file, "/imatrix/slice");
  const NumberTable rows = read_numbers(file, "/imatrix/rows");
  const NumberTable cols = read_numbers(file, "/imatrix/cols");
  const NumberTable norm = read_numbers(file, "/imatrix/frobenius_norm");
  const auto spectra = spectra_of(file);
  ASSERT_EQ(spectra.size(), tensor.size());
  std::set<std::string> seen;
  double worst = 0.0;
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    if (slice.at(i) > 1.0) {
      continue;  // two of every stack
    }
    seen.insert(tensor[i]);
    const auto number = static_cast<std::int64_t>(slice.at(i));
    const auto height = static_cast<std::int64_t>(rows.at(i));
    const auto width = static_cast<std::int64_t>(cols.at(i));
    test::FloatMatrix product{height, width,
                              decoded(mixture_gguf_, tensor[i], static_cast<int>(number))};
    ASSERT_EQ(product.values.size(), static_cast<std::size_t>(height * width)) << tensor[i];
    const std::vector<float>& values = sums.at(tensor[i] + ".in_sum2");
    const std::vector<float>& counts = sums.at(tensor[i] + ".counts");
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(number, 0) * width);
    const double count =
        static_cast<double>(counts[counts.size() == 1 ? 0 : static_cast<std::size_t>(number)]);
    double squares = 0.0;
    for (std::int64_t r = 0; r < height; ++r) {
      for (std::int64_t c = 0; c < width; ++c) {
        const double root =
            std::sqrt(static_cast<double>(values[first + static_cast<std::size_t>(c)]) / count);
        product.at(r, c) = static_cast<float>(static_cast<double>(product.at(r, c)) * root);
        squares += static_cast<double>(product.at(r, c)) * static_cast<double>(product.at(r, c));
      }
    }
    const auto reference = test::reference_singular_values(product);
    const auto& sigma = spectra.at(static_cast<std::int64_t>(i));
    ASSERT_EQ(sigma.size(), reference.size()) << tensor[i];
    for (std::size_t j = 0; j < sigma.size(); ++j) {
      worst = std::max(worst, std::abs(sigma[j] - reference[j]) / reference[0]);
    }
    EXPECT_NEAR(norm.at(i), std::sqrt(squares), 1e-9 * norm.at(i)) << tensor[i];
  }
  EXPECT_LE(worst, 50.0 * 256.0 * 2.3e-16);
  EXPECT_EQ(seen.size(), 9U + 13U);  // a dense layer and one of experts
}

TEST_F(ImatrixCliTest, BothContainersAndBothFormatsGiveTheSameRows) {
  VINDEX_NEEDS(imatrix_);
  const std::string hf = measured(mixture_, "hf", {"--layers", "0,1", "--imatrix", imatrix_});
  const std::string gguf =
      measured(mixture_gguf_, "gguf", {"--layers", "0,1", "--imatrix", imatrix_});
  const std::string dat =
      measured(mixture_, "dat", {"--layers", "0,1", "--imatrix", legacy_file()});
  const auto hf_spectra = spectra_of(hf), gguf_spectra = spectra_of(gguf),
             dat_spectra = spectra_of(dat);
  const auto keys = keys_of(hf), others = keys_of(gguf);
  EXPECT_EQ(keys.size(), 2U * 4 + 3 + 1 + 3 + 24);
  EXPECT_EQ(others.size(), keys.size() + 2 * 2 * 4);  // k_b and v_b, head by head
  EXPECT_EQ(keys_of(dat), keys);
  for (const auto& [key, row] : keys) {
    ASSERT_TRUE(others.contains(key)) << std::get<2>(key);
    const auto& sigma = hf_spectra.at(row);
    const auto& same = gguf_spectra.at(others.at(key));
    const auto& older = dat_spectra.at(row);
    ASSERT_EQ(sigma.size(), same.size());
    for (std::size_t i = 0; i < sigma.size(); ++i) {
      EXPECT_NEAR(sigma[i], same[i], 2e-6 * sigma[0]) << std::get<2>(key);
      EXPECT_NEAR(sigma[i], older[i], 4e-6 * sigma[0]) << std::get<2>(key);
    }
  }
  // /matrix/ knows nothing of it.
  const std::string plain = measured(mixture_, "plain", {"--layers", "0,1"});
  EXPECT_EQ(csv(plain), csv(hf));
  EXPECT_EQ(csv(plain).find("signflip"), std::string::npos);
  // A weighted spectrum has its own null: noise under the same rows and columns.
  const auto flip = read_numbers(hf, "/imatrix/var_at_k_signflip");
  const auto own = read_numbers(hf, "/imatrix/var_at_k");
  const auto of = read_numbers(hf, "/imatrix/of_matrix");
  const auto unweighted = read_numbers(hf, "/matrix/var_at_k");
  ASSERT_EQ(flip.rows, keys.size());
  std::size_t above = 0, different = 0;
  for (std::size_t i = 0; i < flip.rows; ++i) {
    EXPECT_GT(flip.at(i, 0), 0.0);
    above += own.at(i, 0) > flip.at(i, 0) ? 1 : 0;
    different +=
        std::abs(own.at(i, 0) - unweighted.at(static_cast<std::size_t>(of.at(i)), 0)) > 1e-3 ? 1
                                                                                             : 0;
  }
  EXPECT_GT(above, keys.size() / 2);
  EXPECT_GT(different, keys.size() / 2);
}

TEST_F(ImatrixCliTest, IsPlannedAndCountedLikeEveryRow) {
  VINDEX_NEEDS(imatrix_);
  const std::vector<std::string> flags = {"--layers", "0,1", "--imatrix", imatrix_};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  };
  const auto plan = [&](const std::vector<std::string>& words) {
    const ProgramResult result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto plain_plan = plan({"plan", mixture_, "--json", "--layers", "0,1"});
  const auto both_plan = plan(with({"plan", mixture_, "--json"}));
  EXPECT_EQ(both_plan["matrices"].get<int>(), plain_plan["matrices"].get<int>() + 7 + 32);
  EXPECT_GT(both_plan["read_bytes"].get<std::int64_t>(),
            plain_plan["read_bytes"].get<std::int64_t>());

  const std::string single = measured(mixture_, "single", flags);
  const auto status = nlohmann::json::parse(run({"status", single, "--json"}).out);
  EXPECT_EQ(status["state"], "complete");
  EXPECT_EQ(status["derived"]["done"], 39);
  EXPECT_EQ(status["matrices_total"].get<std::size_t>(), read_rows(single).size());
}

TEST_F(ImatrixCliTest, AnotherImportanceMatrixIsAnotherRun) {
  VINDEX_NEEDS(imatrix_);
  const std::string file = measured(mixture_, "out", {"--layers", "0", "--imatrix", imatrix_});
  const ProgramResult other = run({"measure", mixture_, "-o", file, "--layers", "0", "--imatrix",
                                   legacy_file(), "--progress", "none"});
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_NE(other.err.find("derived.imatrix"), std::string::npos) << other.err;
}

TEST_F(ImatrixCliTest, WhatIsNoImportanceMatrixOfThisModelIsRefusedBeforeAnyOutput) {
  VINDEX_NEEDS(imatrix_);
  const std::string broken = folder_.file("broken.imatrix");
  std::string bytes = file_text(imatrix_);
  std::ofstream(broken, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  const std::string nonsense = folder_.file("nonsense.dat");
  std::ofstream(nonsense, std::ios::binary) << "not an importance matrix";
  const std::string out = folder_.file("out.h5");
  const auto refuse = [&](const std::string& file, int exit_code, const char* id) {
    const ProgramResult result = run({"measure", mixture_, "-o", out, "--imatrix", file});
    EXPECT_EQ(result.exit_code, exit_code) << file << ": " << result.err;
    EXPECT_NE(result.err.find(id), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_FALSE(std::filesystem::exists(out + ".parts"));
  };
  refuse(broken, 65, "at byte");
  refuse(nonsense, 65, "E-IMATRIX");
  refuse(mixture_gguf_, 65, "E-IMATRIX-KIND");
  refuse(folder_.file("absent"), 66, "absent");
  const std::string stories = data_ + "/stories260k";
  const ProgramResult other =
      run({"measure", stories + "/stories260K.gguf", "-o", out, "--imatrix", imatrix_});
  if (other.exit_code != 66) {
    EXPECT_EQ(other.exit_code, 64) << other.err;
    EXPECT_NE(other.err.find("E-IMATRIX-MODEL"), std::string::npos) << other.err;
  }
}

}  // namespace
}  // namespace vindex::testing::imatrix_cli_test
