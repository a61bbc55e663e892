//===- RowChecksTest.cpp - checks of samples and where they stand ---------===//
#include "test/unit/runtime/SampleValues.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kSamples = 320;

Port columns() { return portOf("x", DType::F32, {4, 6}); }
Port targets() {
  Port port = portOf("y", DType::F32, {4});
  port.dependence.isTarget = true;
  return port;
}

TEST(RowChecks, AUnitThatChangesIsSaid) {
  /// Multiplies elements from `first` to `last` from sample 160 on.
  auto textsFor = [](int64_t first, int64_t last, auto factor,
                     int64_t samples = kSamples) {
    return textsOf({columns()}, {[=](int64_t sample, int64_t k) {
                     return (2 + normal(sample, k)) *
                            (k >= first && k <= last ? factor(sample) : 1);
                   }},
                   samples);
  };
  auto jump = [](int64_t sample) { return sample < 160 ? 1.0 : 1000.0; };
  EXPECT_EQ(textsFor(2, 2, jump),
            Strings{"element 2 of input 'x': from about sample 160 on, its "
                    "numbers are about 1000 times as large, but those of other "
                    "elements are not: does its unit change?"});
  // Of many samples, some are read.
  const Strings texts = textsFor(
      2, 2, [](int64_t sample) { return sample < 4000 ? 1.0 : 0.01; }, 9000);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts.front().find("element 2 of input 'x': from about sample 4000 "
                               "on, its numbers are about 100 times as small"),
            std::string::npos);
  // Small changes, growth, and samples of another origin.
  auto small = [](int64_t sample) { return sample < 160 ? 1.0 : 4.0; };
  auto growth = [](int64_t sample) { return std::exp(0.03 * double(sample)); };
  EXPECT_EQ(textsFor(2, 2, small), Strings());
  EXPECT_EQ(textsFor(2, 2, growth), Strings());
  EXPECT_EQ(textsFor(0, 5, jump), Strings());
  EXPECT_EQ(textsFor(1, 4, jump), Strings());
  // The number of a group, and an element that is mostly 0.
  auto group = [](int64_t sample, int64_t k) {
    return k == 0                       ? (sample < 160 ? 1.0 : 90.0)
           : k == 1 && sample % 30 != 0 ? 0
                                        : normal(sample, k);
  };
  EXPECT_EQ(textsOf({columns()}, {group}, kSamples), Strings());
}

TEST(RowChecks, TextsThatFollowEachOtherAreSaid) {
  constexpr int64_t kLength = 12;
  Port ids = portOf("ids", DType::I64, {4, kLength});
  ids.use = InputUse::Ids;
  ids.limit = 256;
  /// Frequent ids are small; `begin` is the first id.
  auto word = [](int64_t sample, int64_t k, int64_t begin) {
    return double(begin + int64_t(std::exp(0.08 * double(drawn(sample, k)))));
  };
  auto textsFor = [&](auto beginOf, int64_t samples = 384) {
    return textsOf({ids}, {[=](int64_t sample, int64_t k) {
                     return k == 0 ? 250 : word(sample, k, beginOf(sample));
                   }},
                   samples);
  };
  auto two = [](int64_t sample) { return sample < 192 ? 0 : 128; };
  EXPECT_EQ(textsFor(two),
            Strings{"input 'ids': the ids that are half of those of the "
                    "samples before about sample 192 are only 8.33 % of "
                    "those after it: different texts follow each other"});
  EXPECT_EQ(textsFor([](int64_t) { return 0; }), Strings());
  EXPECT_EQ(textsFor([](int64_t sample) { return sample % 2 * 128; }),
            Strings());
  // Other topics have the same frequent words.
  EXPECT_EQ(textsFor([](int64_t sample) { return sample < 192 ? 0 : 1; }),
            Strings());
  EXPECT_EQ(textsFor([](int64_t sample) { return sample < 20 ? 0 : 128; }, 40),
            Strings());
}

TEST(RowChecks, RowsShiftedByOneAreSaid) {
  auto from = [](int64_t lag) -> Value {
    return [=](int64_t sample, int64_t) {
      const int64_t row = sample + lag;
      return std::tanh(normal(row, 0) + normal(row, 2) - normal(row, 3)) +
             0.5 * normal(sample, 9);
    };
  };
  const Strings before =
      textsOf({columns(), targets()}, {normal, from(-1)}, kSamples);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before.front().substr(0, 60),
            "input 'y': a linear fit to the inputs of the sample before e");
  EXPECT_NE(before.front().find(": are the rows shifted by one?"),
            std::string::npos);
  const Strings after =
      textsOf({columns(), targets()}, {normal, from(1)}, kSamples);
  ASSERT_EQ(after.size(), 1u);
  EXPECT_NE(after.front().find("of the sample after"), std::string::npos);
  EXPECT_EQ(textsOf({columns(), targets()}, {normal, from(0)}, kSamples),
            Strings());
  // Labels.
  Port labels = portOf("y", DType::I64, {4});
  labels.use = InputUse::Labels;
  labels.limit = 3;
  auto classFrom = [](int64_t lag) -> Value {
    return [=](int64_t sample, int64_t) {
      const double sum = normal(sample + lag, 0) + 2 * normal(sample + lag, 2);
      return sum < -1 ? 0.0 : sum < 1 ? 1.0 : 2.0;
    };
  };
  EXPECT_EQ(
      textsOf({columns(), labels}, {normal, classFrom(-1)}, kSamples).size(),
      1u);
  EXPECT_EQ(textsOf({columns(), labels}, {normal, classFrom(0)}, kSamples),
            Strings());
}

TEST(RowChecks, RowsOfASeriesMayFitTheirNeighbors) {
  // The targets are noise to all samples but the next one, which has them as an
  // element.
  auto noise = [](int64_t sample, int64_t) { return normal(sample, 9); };
  auto withLag = [](int64_t sample, int64_t k) {
    return k == 1 ? normal(sample - 1, 9) : normal(sample, k);
  };
  EXPECT_EQ(textsOf({columns(), targets()}, {withLag, noise}, kSamples),
            Strings());
  // The elements are means of previous targets.
  auto withMean = [](int64_t sample, int64_t k) {
    double sum = 0;
    for (int64_t back = 1; back <= k + 2; ++back)
      sum += normal(sample - back, 9);
    return sum;
  };
  EXPECT_EQ(textsOf({columns(), targets()}, {withMean, noise}, kSamples),
            Strings());
}

TEST(RowChecks, WeightsThatAreTheTargetsAreSaid) {
  Port weights = portOf("w", DType::F32, {4});
  weights.dependence.weighsLoss = true;
  auto price = [](int64_t sample, int64_t) {
    return 10 + normal(sample, 0) + normal(sample, 2) + normal(sample, 9) / 2;
  };
  auto weight = [](int64_t sample, int64_t) {
    return 0.5 + std::fabs(normal(sample, 10));
  };
  auto textsFor = [&](const Value &target, const Value &weight) {
    return textsOf({columns(), weights, targets()}, {normal, weight, target},
                   kSamples);
  };
  const Strings texts = textsFor(weight, price);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts.front().substr(0, 88),
            "input 'w' weighs the loss of the samples, and a linear fit to "
            "the other inputs explains ");
  EXPECT_NE(texts.front().find(" % of the target, input 'y': are the two "
                               "swapped?"),
            std::string::npos);
  EXPECT_EQ(textsFor(price, weight), Strings());
  // Weights that depend on the inputs, such as the age of a sample: of a target
  // that no fit explains, but which is no weight.
  auto age = [](int64_t sample, int64_t) {
    return std::exp(normal(sample, 1) / 4);
  };
  auto noise = [](int64_t sample, int64_t) { return normal(sample, 9); };
  EXPECT_EQ(textsFor(noise, age), Strings());
  EXPECT_EQ(textsFor(price, age), Strings());
  EXPECT_EQ(textsFor([](int64_t, int64_t) { return 1; }, age), Strings());
}

} // namespace
} // namespace dpc::rt
