//===- ElementLeakTest.cpp - elements that order or mark the labels -------===//
#include "runtime/facts/DataFacts.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Samples of three floats, and a number or a class.
class Leaks : public ::testing::Test {
protected:
  Leaks() {
    ports = {{"x", 0, DType::F32, {4, 3}, {}, 0},
             {"y", 0, DType::F32, {4}, {}, 0}};
  }
  void useClasses() {
    ports[1].dtype = DType::I64;
    ports[1].limit = 4;
    ports[1].use = InputUse::Labels;
  }
  /// A number from -1 to 1 without an order.
  static double drawn(int64_t i) {
    return std::sin(static_cast<double>(i * i * 37 + 11 * i));
  }
  /// Returns the remarks on samples whose element 1 is value(label, i).
  template <typename Label, typename Value>
  std::vector<std::string> remarks(Label label, Value value,
                                   int64_t samples = 128) const {
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t sample = first + i;
        double own = label(sample);
        const double row[] = {drawn(5 * sample + 1), value(own, sample),
                              drawn(7 * sample + 3)};
        for (int64_t k = 0; k < 3; ++k)
          storeFromDouble(to[0], DType::F32, 3 * i + k, row[k]);
        storeFromDouble(to[1], ports[1].dtype, i, own);
        for (size_t other = 2; other < ports.size(); ++other)
          storeFromDouble(to[other], DType::F32, i, drawn(3 * sample));
      }
      return Status::success();
    };
    std::vector<int64_t> perRow(ports.size(), 1);
    perRow.front() = 3;
    std::vector<std::string> texts =
        scanRows(ports, perRow, "sample", samples, read)->texts();
    return {texts.begin() + static_cast<int64_t>(ports.size()), texts.end()};
  }

  std::vector<Port> ports;
};

using Strings = std::vector<std::string>;

TEST_F(Leaks, AnElementThatRisesWithTheTargetIsSaid) {
  auto rising = [](double label, int64_t) { return std::exp(2 * label); };
  EXPECT_EQ(remarks(drawn, rising),
            Strings{"input 'x': element 1 of a sample rises with the value of "
                    "'y' in all 128 samples"});
  EXPECT_EQ(remarks(drawn, [](double label,
                              int64_t) { return -label * label * label; }),
            Strings{"input 'x': element 1 of a sample falls with the value of "
                    "'y' in all 128 samples"});
  // Of many samples, some have one value after rounding.
  EXPECT_EQ(remarks(drawn, rising, 40000),
            Strings{"input 'x': element 1 of a sample rises with the value of "
                    "'y' in all 40000 samples"});
  ports[1].use = InputUse::Probabilities;
  EXPECT_EQ(remarks([](int64_t i) { return std::fabs(drawn(i)); }, rising),
            Strings{"input 'x': element 1 of a sample rises with the label of "
                    "'y' in all 128 samples"});
}

TEST_F(Leaks, NothingIsSaidOfOtherCurves) {
  auto rising = [](double label, int64_t) { return std::exp(2 * label); };
  EXPECT_EQ(remarks(drawn, [](double label, int64_t) { return label * label; }),
            Strings());
  EXPECT_EQ(remarks(drawn,
                    [&](double label, int64_t i) { // one other sample
                      return rising(i == 100 ? -label : label, i);
                    }),
            Strings());
  EXPECT_EQ(remarks(drawn, rising, 40), Strings()); // few samples
  // Few labels, and two inputs that may be the target.
  EXPECT_EQ(remarks([](int64_t i) { return double(i % 7); }, rising),
            Strings());
  ports.push_back({"w", 0, DType::F32, {4}, {}, 0});
  EXPECT_EQ(remarks(drawn, rising), Strings());
}

TEST_F(Leaks, AnElementThatEqualsTheTargetIsSaid) {
  EXPECT_EQ(remarks(drawn, [](double label, int64_t) { return label; }),
            Strings{"input 'x': element 1 of a sample equals the value of 'y' "
                    "in all 128 samples"});
}

TEST_F(Leaks, AnElementThatCountsTheSamplesIsSaid) {
  auto number = [](double, int64_t i) { return double(i + 1); };
  EXPECT_EQ(remarks(drawn, number),
            Strings{"input 'x': element 1 of a sample is the number of the "
                    "sample: is it data?"});
  EXPECT_EQ(remarks(drawn, [](double, int64_t i) { return double(i % 100); }),
            Strings());
  EXPECT_EQ(remarks(drawn, [](double, int64_t i) { return 0.5 * double(i); }),
            Strings());
}

TEST_F(Leaks, AnElementThatMarksAClassIsSaid) {
  useClasses();
  auto label = [](int64_t i) {
    return static_cast<double>(i * i * 7919 % 97 % 4);
  };
  auto marks = [](double label, int64_t) { return label == 1 ? 1.0 : 0.0; };
  EXPECT_EQ(remarks(label, marks),
            Strings{"input 'x': element 1 of a sample is 1 exactly where the "
                    "label of 'y' is 1 in all 128 samples"});
  // One sample of the class without the mark, or of another class with it, and
  // few samples.
  EXPECT_EQ(remarks(label,
                    [&](double own, int64_t i) {
                      return i == 99 ? 1 - marks(own, i) : marks(own, i);
                    }),
            Strings());
  EXPECT_EQ(remarks(label, marks, 20), Strings());
  // Several values, each with one label.
  EXPECT_EQ(
      remarks(label, [](double own, int64_t) { return 7 - 2 * own * own; }),
      Strings{"input 'x': element 1 of a sample has 4 values, of which "
              "each occurs with one value of the label of 'y', in all "
              "128 samples"});
  EXPECT_EQ(
      remarks(label, [](double own,
                        int64_t i) { return i == 99 ? 7 : 7 - 2 * own * own; }),
      Strings());
  // A feature of two classes.
  EXPECT_EQ(
      remarks(label, [](double own, int64_t) { return own < 2 ? 1.0 : 0.0; }),
      Strings());
}

} // namespace
} // namespace dpc::rt
