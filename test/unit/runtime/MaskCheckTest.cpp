//===- MaskCheckTest.cpp - losses that count samples that only fill a step ===//
#include "runtime/job/MaskCheck.h"
#include "test/unit/runtime/Expect.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kSamples = 4, kCounted = 2, kIgnored = -100;

/// Four samples of one float and one label. The last two repeat the second.
class MaskCheck : public ::testing::Test {
protected:
  void SetUp() override {
    for (auto [name, type] :
         {std::pair("x", DType::F32), {"labels", DType::I64}}) {
      Port port;
      port.name = name;
      port.dtype = type;
      port.globalShape = {kSamples};
      plan.inputs.push_back(port);
    }
  }

  /// Checks a step whose loss is the mean of x over labeled samples, plus
  /// `extra(x)`. The gradient is `gradient(x)`.
  template <typename Extra, typename Gradient>
  Status check(Extra extra, Gradient gradient) {
    std::vector<float> x = {1, 3, 3, 3};
    std::vector<int64_t> labels = {0, 1, kIgnored, kIgnored};
    return checkMask(
               plan,
               {{"labels", kIgnored}, kCounted, {x.data(), labels.data()}},
               [&](const std::vector<const void *> &arrays)
                   -> Expected<StepNumbers> {
                 const float *x = static_cast<const float *>(arrays[0]);
                 const int64_t *labels =
                     static_cast<const int64_t *>(arrays[1]);
                 double sum = 0, count = 0;
                 for (int64_t i = 0; i < kSamples; ++i)
                   if (labels[i] != kIgnored) {
                     sum += x[i];
                     ++count;
                   }
                 return StepNumbers{sum / count + extra(x), gradient(x)};
               },
               "use --last-batch=drop")
        .status();
  }

  Plan plan;
};

double nothing(const float * /*x*/) { return 0; }

TEST_F(MaskCheck, AcceptsAMeanOverLabels) {
  EXPECT_TRUE(check(nothing, nothing).ok());
  // A constant term, and rounding that differs from step to step.
  double noise = 0;
  EXPECT_TRUE(
      check([&](const float *) { return 5 + (noise += 1e-8); }, nothing).ok());
}

TEST_F(MaskCheck, RefusesASmallTermThatReadsAllSamples) {
  Status status =
      check([](const float *x) { return 1e-6 * (x[0] + x[1] + x[2] + x[3]); },
            nothing);
  ASSERT_FALSE(status.ok());
  EXPECT_HAS(status.message(), "the loss depends on samples that only fill the "
                               "step, although their 'labels' are ignored");
  EXPECT_HAS(status.message(), "with the other samples); use "
                               "--last-batch=drop");
}

TEST_F(MaskCheck, RefusesAGradientThatReadsAllSamples) {
  Status status = check(nothing, [](const float *x) { return x[3]; });
  ASSERT_FALSE(status.ok());
  EXPECT_HAS(status.message(), "the gradient depends on samples");
}

TEST_F(MaskCheck, ZerosNeedNotGiveNumbers) {
  EXPECT_TRUE(
      check([](const float *x) { return x[3] == 0 ? std::nan("") : 0.0; },
            nothing)
          .ok());
  EXPECT_TRUE(check(nothing, [](const float *x) {
                return x[3] == 0 ? std::nan("") : 1.0;
              }).ok());
  // Samples that count in their place give numbers.
  Status status = check(
      [](const float *x) { return x[2] + x[3] == 4 ? 1.0 : 2.0; }, nothing);
  EXPECT_FALSE(status.ok());
}

/// Checks outputs of an evaluation beside a loss that ignores what fills.
class MaskCheckOfOutputs : public MaskCheck {
protected:
  /// Returns why each of `numbers(x, labels)` depends on what fills a step, or
  /// "". The outputs are scalars, except the last one.
  template <typename Numbers>
  std::vector<std::string>
  omitted(std::vector<std::string> names, Numbers numbers,
          std::vector<int64_t> labels = {0, 1, kIgnored, kIgnored}) {
    std::vector<StepOutput> others;
    for (const std::string &name : names) {
      others.push_back({plan.outputs.size(), name == names.back()});
      plan.outputs.emplace_back().name = name;
    }
    std::vector<float> x = {1, 3, 3, 3};
    auto checked = checkMask(
        plan, {{"labels", kIgnored}, kCounted, {x.data(), labels.data()}},
        [&](const std::vector<const void *> &arrays) -> Expected<StepNumbers> {
          const float *x = static_cast<const float *>(arrays[0]);
          const int64_t *labels = static_cast<const int64_t *>(arrays[1]);
          double sum = 0, count = 0;
          for (int64_t i = 0; i < kSamples; ++i)
            if (labels[i] != kIgnored) {
              sum += x[i];
              ++count;
            }
          StepNumbers made;
          made.loss = sum / count;
          made.others = numbers(x, sum, count);
          return made;
        },
        "plan otherwise", others);
    EXPECT_TRUE(checked.ok()) << checked.status().message();
    std::vector<std::string> messages;
    for (const Status &status : *checked)
      messages.push_back(status.message());
    return messages;
  }
};

TEST_F(MaskCheckOfOutputs, OmitsWhatCountsTheSamplesThatFill) {
  std::vector<std::string> why =
      omitted({"constant", "mean", "sum", "share", "balance", "each"},
              [](const float *x, double sum, double count) {
                return std::vector<double>{
                    2,
                    sum / count - 5,
                    sum,
                    sum / kSamples,
                    x[0] + x[1] + x[2] + x[3],
                    (x[0] + x[1]) / 2,
                };
              });
  ASSERT_EQ(why.size(), 6U);
  EXPECT_EQ(why[0], "");
  EXPECT_EQ(why[1], "");
  EXPECT_HAS(why[2],
             "samples whose labels 'labels' are -100, but the output "
             "'sum' counts them: it is no mean over the other labels (");
  EXPECT_HAS(why[3], "the output 'share' counts them");
  EXPECT_HAS(why[4], "the output 'balance' depends on samples that only fill "
                     "the step, although their 'labels' are ignored");
  EXPECT_HAS(why[4], "; plan otherwise");
  EXPECT_EQ(why[5], "");
}

TEST_F(MaskCheckOfOutputs, OmitsAValuePerSampleThatReadsOtherSamples) {
  std::vector<std::string> why =
      omitted({"each"}, [](const float *x, double, double) {
        return std::vector<double>{x[0] + x[1] + x[3]};
      });
  ASSERT_EQ(why.size(), 1U);
  EXPECT_HAS(why[0], "the output 'each' depends on samples");
}

TEST_F(MaskCheckOfOutputs, AStepWithoutLabelsIsCheckedAsWell) {
  std::vector<std::string> why = omitted(
      {"mean", "balance", "each"},
      [](const float *x, double sum, double count) {
        return std::vector<double>{sum / count, x[2] + x[3], x[0] + x[1]};
      },
      {kIgnored, kIgnored, kIgnored, kIgnored});
  ASSERT_EQ(why.size(), 3U);
  EXPECT_EQ(why[0], "");
  EXPECT_HAS(why[1], "the output 'balance' depends on samples");
  EXPECT_EQ(why[2], "");
}

TEST_F(MaskCheck, RoundingIsThatOfTheTypes) {
  double rounding = roundingOf(plan, 144);
  EXPECT_LT(rounding, 1e-5);
  EXPECT_TRUE(isMeanOf(2 * (1 + 0x1p-22), 0.25, 5, 1, rounding));
  EXPECT_FALSE(isMeanOf(2.0005, 0.25, 5, 1, rounding));
  // Terms of both signs cancel.
  EXPECT_TRUE(isMeanOf(1e-7, 0.5, 1, -1, rounding));
  plan.buffers.emplace_back().dtype = DType::BF16;
  EXPECT_TRUE(isMeanOf(2.0005, 0.25, 5, 1, roundingOf(plan, 144)));
  EXPECT_FALSE(isMeanOf(2.02, 0.25, 5, 1, roundingOf(plan, 144)));
}

} // namespace
} // namespace dpc::rt
