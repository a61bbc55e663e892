//===- LabelFactsTest.cpp - labels that do not fit, and their order -------===//
#include "runtime/facts/LabelOrder.h"
#include "runtime/facts/LabelTexts.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Returns the order of `count` labels, which `label(i)` gives.
template <typename Label>
std::string orderOf(Label label, int64_t count, int64_t perStep = 8) {
  LabelOrder order(perStep);
  for (int64_t i = 0; i < count; ++i)
    order.add(static_cast<double>(label(i)));
  return order.text("y");
}

/// A number from 0 to 9972 without an order.
int64_t drawn(int64_t i) { return (i * i * 7919 + 31 * i) % 9973; }

TEST(LabelOrder, SortedLabelsAreSaid) {
  EXPECT_EQ(orderOf([](int64_t i) { return 3 - i / 32; }, 128),
            "the samples are sorted by input 'y' (4 values): most steps see "
            "only a few of them");
  EXPECT_EQ(orderOf([](int64_t i) { return 0.1 * double(i); }, 128),
            "the samples are sorted by input 'y': a step sees similar values");
  EXPECT_EQ(orderOf([](int64_t i) { return i % 64; }, 128),
            "the samples are sorted by input 'y' in 2 parts: a step sees "
            "similar values");
}

TEST(LabelOrder, RunsOfOneClassAreSaid) {
  auto pieces = [](int64_t i) { return i % 64 / 16; };
  EXPECT_EQ(orderOf(pieces, 256),
            "94.1 % of the samples have the same value of input 'y' as the "
            "sample before (4 values): most steps see only a few of them");
  // A step has all pieces.
  EXPECT_EQ(orderOf(pieces, 256, 128), "");
}

TEST(LabelOrder, NothingIsSaidOfOtherOrders) {
  for (int64_t perStep : {1, 8, 64}) {
    EXPECT_EQ(orderOf([](int64_t i) { return i % 10; }, 400, perStep), "");
    EXPECT_EQ(orderOf(drawn, 400, perStep), "");
    EXPECT_EQ(orderOf([](int64_t i) { return drawn(i) % 2; }, 400, perStep),
              "");
    // A rare class, and one class.
    EXPECT_EQ(orderOf([](int64_t i) { return i > 395; }, 400, perStep), "");
    EXPECT_EQ(orderOf([](int64_t) { return 1; }, 400, perStep), "");
    EXPECT_EQ(
        orderOf([](int64_t i) { return drawn(i) % 100 == 0; }, 10000, perStep),
        "");
    // A series in the order of time.
    EXPECT_EQ(orderOf([](int64_t i) { return std::sin(0.1 * double(i)); }, 400,
                      perStep),
              "");
  }
  EXPECT_EQ(orderOf([](int64_t i) { return i; }, 12), ""); // few samples
}

/// Labels of `classes` classes, or `ignored`.
ArrayFacts factsOn(const std::vector<int64_t> &labels, int64_t classes,
                   std::optional<int64_t> ignored = {}) {
  ArrayFacts facts{{"y", 0, DType::I64, {8}, {}, classes, ignored}};
  facts.port.use = InputUse::Labels;
  facts.add(0, labels.data(), static_cast<int64_t>(labels.size()));
  return facts;
}

/// Returns 100 labels from `first` on, of four classes.
std::vector<int64_t> fourClasses(int64_t first) {
  std::vector<int64_t> labels(100);
  for (int64_t i = 0; i < 100; ++i)
    labels[i] = first + i % 4;
  return labels;
}

using Strings = std::vector<std::string>;

TEST(LabelTexts, ARareFirstClassIsSaid) {
  std::vector<int64_t> labels = fourClasses(1);
  labels[7] = 0;
  EXPECT_EQ(labelTexts(factsOn(labels, 5)),
            Strings{"input 'y': 1 of 100 labels is 0, but each of 1 to 4 "
                    "occurs at least 24 times: are the classes numbered from "
                    "1?"});
  labels[0] = labels[1] = 0; // a rare class
  EXPECT_EQ(labelTexts(factsOn(labels, 5)), Strings());
  EXPECT_EQ(labelTexts(factsOn(fourClasses(0), 4)), Strings());
}

TEST(LabelTexts, WeightsOfClassesAreCompared) {
  // 30 of class 0, 10 of class 1, and 60 of class 2.
  std::vector<int64_t> labels(100, 2);
  std::fill_n(labels.begin(), 40, 0);
  std::fill_n(labels.begin(), 10, 1);
  auto textsWith = [&](const std::vector<double> &weights) {
    ArrayFacts facts = factsOn(labels, 3);
    facts.port.dependence.classWeights = weights;
    return labelTexts(facts);
  };
  EXPECT_EQ(textsWith({}), Strings());
  EXPECT_EQ(textsWith({1, 1, 1}), Strings());
  EXPECT_EQ(textsWith({0.5, 3, 0.4}), Strings());
  EXPECT_EQ(textsWith({1, 3, 2}), Strings());
  EXPECT_EQ(textsWith({1, 1}), Strings()); // of other classes
  EXPECT_EQ(
      textsWith({1, 1, 0}),
      Strings{"input 'y': the loss gives the weight 0 to class 2 (60 %)"});
  EXPECT_EQ(textsWith({1.2, 0.3, 1.5}),
            Strings{"input 'y': the loss gives the weight 1.5 to class 2 (60 "
                    "%), and only 0.3 to class 1 (10 %)"});
  // Targets of a binary cross entropy.
  ArrayFacts facts{{"y", 0, DType::F32, {8}, {}, 0}};
  std::vector<float> targets = {0, 0, 0, 0, 0, 0, 0, 1};
  facts.add(0, targets.data(), 8);
  facts.port.use = InputUse::Probabilities;
  facts.port.dependence.classWeights = {1, 7};
  EXPECT_EQ(labelTexts(facts), Strings());
  facts.port.dependence.classWeights = {1, 0.1};
  EXPECT_EQ(labelTexts(facts).size(), 1U);
}

TEST(LabelTexts, AnIgnoredLabelThatIsTheFirstClassIsSaid) {
  EXPECT_EQ(labelTexts(factsOn(fourClasses(-1), 4, -1)),
            Strings{"input 'y': no label is 3, but 25 % are -1, which the loss "
                    "ignores: are they the first class? The loss counts its 4 "
                    "classes from 0"});
  // Samples without a label, beside all classes.
  std::vector<int64_t> labels = fourClasses(-1);
  labels[7] = 3;
  EXPECT_EQ(labelTexts(factsOn(labels, 4, -1)), Strings());
  // A class that does not occur, and few samples without a label.
  labels = fourClasses(0);
  std::ranges::replace(labels, 3, 1);
  labels[9] = -1;
  EXPECT_EQ(labelTexts(factsOn(labels, 4, -1)),
            Strings{"input 'y': 1 of 4 classes of the loss does not occur: 3"});
}

TEST(LabelTexts, LabelsThatEndWithATypeAreSaid) {
  std::vector<int64_t> labels(1024);
  for (int64_t i = 0; i < 1024; ++i)
    labels[i] = drawn(i) % 256;
  labels[3] = 255;
  EXPECT_EQ(labelTexts(factsOn(labels, 400)),
            Strings{"input 'y': the largest label is 255, the largest number "
                    "of u8, but the loss has 400 classes: were larger "
                    "labels stored in too small a type?"});
  EXPECT_EQ(labelTexts(factsOn(labels, 256)), Strings());
  EXPECT_EQ(labelTexts(factsOn(labels, 257)), Strings()); // by chance
  std::ranges::replace(labels, 255, 254);
  EXPECT_EQ(labelTexts(factsOn(labels, 400)), Strings());
}

} // namespace
} // namespace dpc::rt
