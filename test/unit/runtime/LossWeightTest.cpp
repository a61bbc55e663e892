//===- LossWeightTest.cpp - what the loss of a step is a mean over --------===//
#include "runtime/job/LossWeight.h"
#include "test/unit/runtime/Expect.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kSamples = 4, kLength = 3, kClasses = 5, kIgnored = -100;

/// Four samples of three labels. Each position has its own term of the loss.
class Weights : public ::testing::Test {
protected:
  void SetUp() override {
    Port port;
    port.name = "labels";
    port.dtype = DType::I64;
    port.globalShape = {kSamples, kLength};
    port.limit = kClasses;
    port.ignored = kIgnored;
    port.use = InputUse::Labels;
    plan.inputs.push_back(port);
  }

  static double term(int64_t k, int64_t label) {
    return 1.5 + std::sin(static_cast<double>(7 * k + label));
  }
  /// The mean over labels, of which class 1 has the weight `weight`.
  static double weighedMean(const int64_t *labels, double weight,
                            int64_t firstOfRow = 0) {
    double sum = 0, weights = 0;
    for (int64_t k = 0; k < kSamples * kLength; ++k) {
      if (labels[k] == kIgnored || k % kLength < firstOfRow)
        continue;
      double own = labels[k] == 1 ? weight : 1;
      sum += own * term(k, labels[k]);
      weights += own;
    }
    return static_cast<float>(sum / weights);
  }
  /// The sum over samples of the mean of each, over the number of samples.
  static double meanOfSamples(const int64_t *labels) {
    double sum = 0;
    for (int64_t row = 0; row < kSamples; ++row) {
      double own = 0, count = 0;
      for (int64_t k = row * kLength; k < (row + 1) * kLength; ++k)
        if (labels[k] != kIgnored) {
          own += term(k, labels[k]);
          ++count;
        }
      sum += count > 0 ? own / count : 0;
    }
    return static_cast<float>(sum / kSamples);
  }

  template <typename Loss> Status tell(Loss loss, const char *remedy = "do x") {
    std::vector<const void *> arrays{labels.data()};
    weight.emplace(options, plan);
    EXPECT_TRUE(weight->canTell(arrays));
    return weight->tell(
        arrays,
        [&](const std::vector<const void *> &tried) -> Expected<StepNumbers> {
          StepNumbers numbers;
          numbers.loss = loss(static_cast<const int64_t *>(tried[0]));
          return numbers;
        },
        remedy);
  }

  Plan plan;
  RunOptions options;
  /// The last two samples only fill the step. The two labels that count are of
  /// one class, so that they do not tell whether the loss weighs classes.
  std::vector<int64_t> labels = {1,        kIgnored, kIgnored, 1,
                                 kIgnored, kIgnored, kIgnored, kIgnored,
                                 kIgnored, kIgnored, kIgnored, kIgnored};
  std::optional<LossWeight> weight;
};

TEST_F(Weights, AMeanOverLabelsWeighsThem) {
  auto mean = [](const int64_t *labels) { return weighedMean(labels, 1); };
  ASSERT_TRUE(tell(mean).ok());
  EXPECT_STREQ(weight->unit(), "labels");
  EXPECT_EQ(weight->of({labels.data()}, 2), 2);
}

TEST_F(Weights, AMeanThatWeighsClassesIsRefused) {
  // The mean of two halves differs by much less than a permille.
  for (double own : {3.0, 1.001}) {
    auto mean = [&](const int64_t *labels) { return weighedMean(labels, own); };
    Status status = tell(mean, "plan with --global-batch=18");
    ASSERT_FALSE(status.ok()) << own;
    EXPECT_HAS(status.message(),
               "a mean neither over the labels other than -100 in 'labels' nor "
               "over samples (it may weigh classes)");
    EXPECT_HAS(status.message(), "; plan with --global-batch=18");
  }
  // The loss of the only step needs no weight.
  auto mean = [](const int64_t *labels) { return weighedMean(labels, 3); };
  EXPECT_TRUE(tell(mean, "").ok());
}

TEST_F(Weights, AMeanOverSamplesWeighsThem) {
  for (double constant : {0.0, 2.0}) {
    ASSERT_TRUE(tell([&](const int64_t *labels) {
                  return constant + meanOfSamples(labels);
                }).ok());
    EXPECT_STREQ(weight->unit(), "samples");
    EXPECT_EQ(weight->of({labels.data()}, 2), 2);
  }
}

TEST_F(Weights, ALossThatShiftsItsLabelsDoesNotCountTheFirst) {
  plan.inputs[0].use = InputUse::ShiftedLabels;
  labels = {1, 2, 3, 4, 0, kIgnored, 1, 2, kIgnored, 1, 2, 3};
  ASSERT_TRUE(tell([](const int64_t *labels) {
                return weighedMean(labels, 1, 1);
              }).ok());
  EXPECT_STREQ(weight->unit(), "labels");
  EXPECT_EQ(weight->of({labels.data()}, 4), 6);
}

TEST_F(Weights, ClassesWithoutProbabilityAreNotTried) {
  auto mean = [](const int64_t *labels) {
    double all = weighedMean(labels, 1);
    return std::any_of(labels, labels + kSamples * kLength,
                       [](int64_t label) { return label > 1; })
               ? INFINITY
               : all;
  };
  ASSERT_TRUE(tell(mean).ok());
  EXPECT_STREQ(weight->unit(), "labels");
}

} // namespace
} // namespace dpc::rt
