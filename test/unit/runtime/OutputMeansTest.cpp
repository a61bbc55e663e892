//===- OutputMeansTest.cpp - the means of outputs over many steps ---------===//
#include "runtime/job/OutputMeans.h"
#include "test/unit/runtime/Expect.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kIgnored = -100;
constexpr size_t kSamples = 4;

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
                      {{0, false}, {1, false}, {2, false}, {3, true}});
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

TEST_F(OutputMeansOf, IgnoredLabelsOfTheLastOfManyStepsTell) {
  std::vector<Step> steps(300, kFull);
  steps.push_back(kTwo);
  OutputMeans means = meansOf(steps);
  EXPECT_STREQ(means.unit(), "labels");
  EXPECT_EQ(means.loss().weight(), 1202);
  EXPECT_DOUBLE_EQ(means.loss().value(), (300 * 10 + 6) / 1202.);
}

TEST_F(OutputMeansOf, NothingIsToldWhereBothMeansAreTheSame) {
  meansOf(std::vector<Step>(3, kFull));
  EXPECT_EQ(computed, 0);
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
  EXPECT_LE(first, 3 * 4);
  for (int i = 0; i < 20; ++i)
    run(means, std::vector<Step>(50, kTwo));
  EXPECT_LE(computed, 3 * 12);
  EXPECT_DOUBLE_EQ(means.other(1).value(), 2.5);
}

} // namespace
} // namespace dpc::rt
