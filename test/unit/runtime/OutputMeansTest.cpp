//===- OutputMeansTest.cpp - the means of outputs over many steps ---------===//
#include "runtime/job/OutputMeans.h"
#include "test/unit/runtime/Expect.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kIgnored = -100;
constexpr size_t kSamples = 4;
constexpr int kRuns = 9; ///< of a step that tells, at most

struct Step {
  std::vector<float> x;
  std::vector<int64_t> labels;
};

class OutputMeansOf : public ::testing::Test {
protected:
  OutputMeansOf() {
    Port x, labels;
    x.name = "x";
    labels.name = "labels";
    labels.dtype = DType::I64;
    labels.ignored = kIgnored;
    labels.limit = 10;
    labels.use = InputUse::Labels;
    x.globalShape = labels.globalShape = {kSamples};
    plan.inputs = {x, labels};
  }

  /// The loss is the mean of x over labels. The others: an accuracy, the mean
  /// of x over all samples, the sum over labels, and a value per sample.
  static StepNumbers numbersOf(const std::vector<const void *> &arrays) {
    const float *x = static_cast<const float *>(arrays[0]);
    const int64_t *labels = static_cast<const int64_t *>(arrays[1]);
    double sum = 0, count = 0, right = 0, all = 0;
    for (size_t i = 0; i < kSamples; ++i) {
      bool isCounted = labels[i] != kIgnored;
      sum += isCounted ? x[i] : 0;
      count += isCounted;
      right += isCounted && labels[i] == 1;
      all += x[i];
    }
    return {sum / count, NAN, {right / count, all / 4, sum, all / 4}};
  }

  static std::vector<const void *> arraysOf(const Step &step) {
    return {step.x.data(), step.labels.data()};
  }

  OutputMeans meansOf(const std::vector<Step> &steps) {
    OutputMeans means(RunOptions(), plan,
                      {{0, false}, {1, false}, {2, false}, {3, true}},
                      "plan otherwise");
    run(means, steps);
    return means;
  }
  void run(OutputMeans &means, const std::vector<Step> &steps) {
    means.restart();
    for (size_t i = 0; i < steps.size(); ++i)
      means.add(static_cast<int64_t>(i) + 1, arraysOf(steps[i]), kSamples,
                numbersOf(arraysOf(steps[i])));
    Status status = means.tell(
        means.stepsToTell(),
        [&](int64_t step) -> Expected<std::vector<const void *>> {
          return arraysOf(steps[step - 1]);
        },
        [&](int64_t /*step*/,
            const std::vector<const void *> &arrays) -> Expected<StepNumbers> {
          ++computed;
          return numbersOf(arrays);
        });
    EXPECT_TRUE(status.ok()) << status.message();
  }

  Plan plan;
  int computed = 0; ///< steps that tell() has run
};

const Step kFull{{1, 2, 3, 4}, {1, 1, 0, 1}};
const Step kOne{{5, 6, 7, 8}, {kIgnored, 0, kIgnored, kIgnored}};
const Step kNone{{9, 9, 9, 9}, {kIgnored, kIgnored, kIgnored, kIgnored}};
const Step kTwo{{1, 5, 2, 2}, {0, 1, kIgnored, kIgnored}};

TEST_F(OutputMeansOf, EachOutputWeighsByWhatItIsAMeanOver) {
  OutputMeans means = meansOf({kFull, kOne, kTwo});
  EXPECT_STREQ(means.unit(), "labels");
  EXPECT_EQ(means.loss().weight(), 7);
  EXPECT_DOUBLE_EQ(means.loss().value(), (10 + 6 + 6) / 7.);
  EXPECT_DOUBLE_EQ(means.other(0).value(), 4 / 7.);
  EXPECT_EQ(means.other(1).weight(), 12);
  EXPECT_DOUBLE_EQ(means.other(1).value(), (10 + 26 + 10) / 12.);
  EXPECT_DOUBLE_EQ(means.other(2).value(), (10 + 6 + 6) / 3.);
  EXPECT_DOUBLE_EQ(means.other(3).value(), (10 + 26 + 10) / 12.);
}

TEST_F(OutputMeansOf, AStepWithoutLabelsDoesNotEnter) {
  for (const std::vector<Step> &steps : {std::vector<Step>{kNone, kFull},
                                         {kFull, kNone},
                                         {kNone, kFull, kNone}}) {
    OutputMeans means = meansOf(steps);
    EXPECT_DOUBLE_EQ(means.loss().value(), 2.5);
    EXPECT_DOUBLE_EQ(means.other(0).value(), 0.75);
    // Its samples count where labels do not.
    auto nines = static_cast<double>(steps.size() - 1);
    EXPECT_DOUBLE_EQ(means.other(1).value(), (2.5 + 9 * nines) / (1 + nines));
  }
}

// Neither step has two labels, of which a part could be left out.
TEST_F(OutputMeansOf, StepsOfOneLabelTell) {
  OutputMeans means = meansOf({kOne, kNone});
  EXPECT_STREQ(means.unit(), "labels");
  EXPECT_EQ(means.loss().weight(), 1);
  EXPECT_DOUBLE_EQ(means.loss().value(), 6);
  EXPECT_DOUBLE_EQ(means.other(1).value(), (6.5 + 9) / 2);
}

TEST_F(OutputMeansOf, IgnoredLabelsOfTheLastOfManyStepsTell) {
  std::vector<Step> steps(300, kFull);
  steps.push_back(kTwo);
  OutputMeans means = meansOf(steps);
  EXPECT_STREQ(means.unit(), "labels");
  EXPECT_EQ(means.loss().weight(), 1202);
  EXPECT_DOUBLE_EQ(means.loss().value(), (300 * 10 + 6) / 1202.);
}

// Without ignored labels, both means are the same, if the loss is a mean.
TEST_F(OutputMeansOf, OnlyTheLossIsToldWithoutIgnoredLabels) {
  OutputMeans means = meansOf(std::vector<Step>(3, kFull));
  int first = computed;
  EXPECT_GT(first, 0);
  EXPECT_LE(first, kRuns);
  run(means, std::vector<Step>(3, kFull));
  EXPECT_EQ(computed, first);
}

// All labels of the first evaluation are wrong, which tells nothing about the
// accuracy.
TEST_F(OutputMeansOf, AnOutputThatIsZeroIsToldByALaterEvaluation) {
  Step wrong{{1, 2, 3, 4}, {0, 0, kIgnored, kIgnored}};
  OutputMeans means = meansOf({wrong, wrong});
  EXPECT_DOUBLE_EQ(means.other(0).value(), 0);
  run(means, {kFull, kTwo, kOne});
  EXPECT_DOUBLE_EQ(means.other(0).value(), 4 / 7.);
}

// The mean over samples does not depend on labels, so that no step tells.
TEST_F(OutputMeansOf, TellingHasABound) {
  OutputMeans means = meansOf(std::vector<Step>(50, kTwo));
  int first = computed;
  EXPECT_GT(first, 0);
  EXPECT_LE(first, kRuns * 4);
  for (int i = 0; i < 20; ++i)
    run(means, std::vector<Step>(50, kTwo));
  EXPECT_LE(computed, kRuns * 8);
  EXPECT_DOUBLE_EQ(means.other(1).value(), 2.5);
}

// A step of one label has no part: its numbers without the label tell.
TEST_F(OutputMeansOf, AStepOfOneLabelTellsByItsNumbersWithoutIt) {
  for (Port &input : plan.inputs)
    input.globalShape = {1};
  OutputMeans means(RunOptions(), plan, {{0, false}}, "plan otherwise");
  int64_t labels[] = {1, kIgnored};
  float x[] = {3, 5};
  auto arrays = [&](int64_t step) -> std::vector<const void *> {
    return {x + step - 1, labels + step - 1};
  };
  // A mean over labels, and a mean of all samples.
  auto numbers = [](const std::vector<const void *> &arrays) -> StepNumbers {
    double value = *static_cast<const float *>(arrays[0]);
    bool isCounted = *static_cast<const int64_t *>(arrays[1]) != kIgnored;
    return {isCounted ? value : NAN, NAN, {value}};
  };
  for (int64_t step : {1, 2})
    means.add(step, arrays(step), 1, numbers(arrays(step)));
  Status status = means.tell(
      means.stepsToTell(),
      [&](int64_t step) -> Expected<std::vector<const void *>> {
        return arrays(step);
      },
      [&](int64_t, const std::vector<const void *> &tried)
          -> Expected<StepNumbers> { return numbers(tried); });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_STREQ(means.unit(), "labels");
  EXPECT_DOUBLE_EQ(means.loss().value(), 3);
  EXPECT_DOUBLE_EQ(means.other(0).value(), 4);
}

constexpr int64_t kRows = 4, kLength = 3, kClasses = 5;

/// Four samples of three labels. Each position has its own term of the loss.
class WhatTheLossIsOver : public ::testing::Test {
protected:
  void SetUp() override {
    Port port;
    port.name = "labels";
    port.dtype = DType::I64;
    port.globalShape = {kRows, kLength};
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
    for (int64_t k = 0; k < kRows * kLength; ++k) {
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
    for (int64_t row = 0; row < kRows; ++row) {
      double own = 0, count = 0;
      for (int64_t k = row * kLength; k < (row + 1) * kLength; ++k)
        if (labels[k] != kIgnored) {
          own += term(k, labels[k]);
          ++count;
        }
      sum += count > 0 ? own / count : 0;
    }
    return static_cast<float>(sum / kRows);
  }

  template <typename Loss> Status tell(Loss loss, const char *remedy = "do x") {
    std::vector<const void *> arrays{labels.data()};
    means.emplace(options, plan, std::vector<StepOutput>(), remedy);
    means->look(1, arrays);
    Status status = means->tell(
        means->stepsToTell(),
        [&](int64_t /*step*/) -> Expected<std::vector<const void *>> {
          return arrays;
        },
        [&](int64_t /*step*/,
            const std::vector<const void *> &tried) -> Expected<StepNumbers> {
          StepNumbers numbers;
          numbers.loss = loss(static_cast<const int64_t *>(tried[0]));
          return numbers;
        });
    means->add(1, arrays, 2, {1, NAN, {}});
    return status;
  }

  Plan plan;
  RunOptions options;
  /// The last two samples only fill the step. The two labels that count are of
  /// one class, so that they do not tell whether the loss weighs classes.
  std::vector<int64_t> labels = {1,        kIgnored, kIgnored, 1,
                                 kIgnored, kIgnored, kIgnored, kIgnored,
                                 kIgnored, kIgnored, kIgnored, kIgnored};
  std::optional<OutputMeans> means;
};

TEST_F(WhatTheLossIsOver, AMeanOverLabelsWeighsThem) {
  auto mean = [](const int64_t *labels) { return weighedMean(labels, 1); };
  ASSERT_TRUE(tell(mean).ok());
  EXPECT_STREQ(means->unit(), "labels");
  EXPECT_EQ(means->loss().weight(), 2);
}

TEST_F(WhatTheLossIsOver, AMeanThatWeighsClassesIsRefused) {
  // The mean of two halves differs by much less than a permille.
  for (double own : {3.0, 1.001}) {
    auto mean = [&](const int64_t *labels) { return weighedMean(labels, own); };
    Status status = tell(mean, "plan with --global-batch=18");
    ASSERT_FALSE(status.ok()) << own;
    EXPECT_HAS(status.message(),
               "a mean neither over the labels of 'labels' nor over "
               "samples (it may weigh classes)");
    EXPECT_HAS(status.message(), "; plan with --global-batch=18");
  }
  // The loss of the only step needs no weight.
  auto mean = [](const int64_t *labels) { return weighedMean(labels, 3); };
  EXPECT_TRUE(tell(mean, "").ok());
}

TEST_F(WhatTheLossIsOver, AMeanOverSamplesWeighsThem) {
  for (double constant : {0.0, 2.0}) {
    ASSERT_TRUE(tell([&](const int64_t *labels) {
                  return constant + meanOfSamples(labels);
                }).ok());
    EXPECT_STREQ(means->unit(), "samples");
    EXPECT_EQ(means->loss().weight(), 2);
  }
}

TEST_F(WhatTheLossIsOver, ALossThatShiftsItsLabelsDoesNotCountTheFirst) {
  plan.inputs[0].use = InputUse::ShiftedLabels;
  labels = {1, 2, 3, 4, 0, kIgnored, 1, 2, kIgnored, 1, 2, 3};
  ASSERT_TRUE(tell([](const int64_t *labels) {
                return weighedMean(labels, 1, 1);
              }).ok());
  EXPECT_STREQ(means->unit(), "labels");
  EXPECT_EQ(means->loss().weight(), 6);
}

TEST_F(WhatTheLossIsOver, ClassesWithoutProbabilityAreNotTried) {
  auto mean = [](const int64_t *labels) {
    double all = weighedMean(labels, 1);
    return std::any_of(labels, labels + kRows * kLength,
                       [](int64_t label) { return label > 1; })
               ? INFINITY
               : all;
  };
  ASSERT_TRUE(tell(mean).ok());
  EXPECT_STREQ(means->unit(), "labels");
}

} // namespace
} // namespace dpc::rt
