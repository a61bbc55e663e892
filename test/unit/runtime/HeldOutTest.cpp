//===- HeldOutTest.cpp - held-out numbers that are trained ----------------===//
#include "runtime/facts/HeldOut.h"
#include "runtime/data/DatasetInputs.h"
#include "runtime/io/Npy.h"
#include "runtime/job/DataCheck.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// A number of a series without an order.
double numberAt(int64_t i) {
  return 10 * std::sin(static_cast<double>(i * i % 10007) * 0.37);
}

/// Returns facts on samples of 24 numbers, which value(sample, k) gives, in
/// rows of `columns` numbers.
template <typename Value>
DataFacts factsOn(Value value, int64_t samples, int64_t columns = 1) {
  constexpr int64_t width = 24;
  Port port{"x", 0, DType::F32, {4, width}, {}, 0};
  if (columns > 1)
    port.globalShape = {4, width / columns, columns};
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < width * count; ++i)
      storeFromDouble(to[0], DType::F32, i,
                      value(first + i / width, i % width));
    return Status::success();
  };
  ScanLimits limits;
  limits.comparesNumbers = true;
  return std::move(*scanRows({port}, {width}, "sample", samples, read, limits));
}

double rounded(double value, DType type) {
  std::array<std::byte, 8> bytes;
  storeFromDouble(bytes.data(), type, 0, value);
  return loadAsDouble(bytes.data(), type, 0);
}

TEST(HeldOut, RoundedSamplesThatAreTrainedAreCounted) {
  auto sample = [](int64_t row, int64_t k) { return numberAt(24 * row + k); };
  DataFacts training = factsOn(sample, 100);
  auto text = [&](const DataFacts &heldOut) {
    return roundedText(training, "--data=t", heldOut);
  };
  for (DType type : {DType::F16, DType::BF16})
    EXPECT_EQ(
        text(factsOn(
            [&](int64_t row, int64_t k) {
              return rounded(sample(row + (row < 20 ? 30 : 300), k), type);
            },
            40)),
        concat("20 of 40 samples of --eval-data equal samples of --data=t "
               "after both are rounded to ",
               nameOf(type)));
  // Other samples, equal samples, and numbers that the types cannot tell apart.
  EXPECT_EQ(
      text(factsOn([&](int64_t row, int64_t k) { return sample(row + 300, k); },
                   40)),
      "");
  EXPECT_EQ(text(factsOn(sample, 40)), "");
  auto coarse = [](int64_t offset) {
    return [=](int64_t row, int64_t k) {
      return 1e6 + double(row + offset) + 0.001 * double(k);
    };
  };
  EXPECT_EQ(roundedText(factsOn(coarse(0), 100), "--data=t",
                        factsOn(coarse(100), 40)),
            "");
}

TEST(HeldOut, WindowsOfOneSeriesAreSaid) {
  // Windows begin at each step of a series; `rest` are held out.
  auto windows = [](int64_t rest) {
    return [=](int64_t row, int64_t k) { return numberAt(3 * row + rest + k); };
  };
  DataFacts training = factsOn(windows(0), 100);
  auto text = [&](const DataFacts &heldOut) {
    return seriesText(training, "--data=t", heldOut);
  };
  EXPECT_HAS(text(factsOn(windows(1), 30)),
             " % of the passages of input 'x' in --eval-data are also in "
             "--data=t, at other positions of samples: are both windows of one "
             "series?");
  // Later windows, of which the first ones overlap, and equal positions.
  EXPECT_EQ(text(factsOn(windows(290), 30)), "");
  EXPECT_EQ(text(factsOn(
                [](int64_t row, int64_t k) {
                  return k < 12 ? numberAt(3 * row + k)
                                : numberAt(5000 + row * k);
                },
                30)),
            "");
  // Few different numbers.
  auto marks = [](int64_t by) {
    return [=](int64_t row, int64_t k) {
      return double((by * row + k * k) % 3 == 0);
    };
  };
  EXPECT_EQ(
      seriesText(factsOn(marks(1), 100), "--data=t", factsOn(marks(2), 100)),
      "");
  // Rows of which one of three numbers is 1, without an order.
  auto bases = [](int64_t begin) {
    return [=](int64_t row, int64_t k) {
      return double(
          std::abs(std::lround(100 * numberAt(begin + 24 * row + k / 3))) % 3 ==
          k % 3);
    };
  };
  EXPECT_EQ(seriesText(factsOn(bases(0), 500, 3), "--data=t",
                       factsOn(bases(50000), 100, 3)),
            "");
}

class HeldOutFiles : public test::ScratchFolder {};

TEST_F(HeldOutFiles, ARunComparesThem) {
  Plan plan;
  plan.inputs = {{"x", 0, DType::F32, {2, 24}, {}, 0}};
  auto open = [&](const std::string &name, const auto &value) {
    HostTensor x = HostTensor::zeros(DType::F32, {32, 24});
    for (int64_t i = 0; i < x.elements(); ++i)
      x.set(i, value(i / 24, i % 24));
    std::filesystem::create_directory(at(name));
    EXPECT_TRUE(writeNpy(at(name + "/x.npy"), x).ok());
    return std::move(*DatasetInputs::open(
        plan, std::move(*openDataset(plan, at(name))), {}));
  };
  RunOptions options;
  options.data = at("data");
  auto training = open(
      "data", [](int64_t row, int64_t k) { return numberAt(3 * row + k); });
  auto lastLine = [&](const auto &heldOut) {
    return checkData(options, plan, *training, heldOut.get())->lines.back();
  };
  EXPECT_HAS(lastLine(open("windows",
                           [](int64_t row, int64_t k) {
                             return numberAt(3 * row + 1 + k);
                           })),
             "are both windows of one series?");
  EXPECT_HAS(lastLine(open("rounded",
                           [](int64_t row, int64_t k) {
                             return rounded(numberAt(3 * row + k), DType::BF16);
                           })),
             "after both are rounded to bf16");
}

} // namespace
} // namespace dpc::rt
