//===- ShiftFactsTest.cpp - labels against ids ----------------------------===//
#include "runtime/facts/DataFacts.h"
#include "test/unit/runtime/Expect.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Steps of two sequences of six tokens.
class Shifts : public ::testing::Test {
protected:
  Shifts() {
    for (const char *name : {"ids", "labels"}) {
      Port port{name, 0, DType::I64, {2, 6}, {}, 50};
      port.use = ports.empty() ? InputUse::Ids : InputUse::Labels;
      ports.push_back(port);
    }
    ports[1].ignored = -100;
  }

  static double token(int64_t row, int64_t k) {
    return static_cast<double>((7 * row + 5 * k + k * k) % 50);
  }
  /// Returns the last line. `value(input, row, k)` is an element.
  template <typename Value> std::string lastText(Value value) {
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t row = 0; row < count; ++row)
        for (int64_t k = 0; k < 12; ++k)
          for (size_t input = 0; input < ports.size(); ++input)
            storeFromDouble(to[input], ports[input].dtype, 12 * row + k,
                            value(input, 2 * (first + row) + k / 6, k % 6));
      return Status::success();
    };
    std::vector<int64_t> perRow(ports.size(), 12);
    return scanRows(ports, perRow, "step", 3, read)->texts().back();
  }

  /// Whether the last line only describes the input "labels".
  template <typename Value> bool saysNothing(Value value) {
    return lastText(value).starts_with("input 'labels': ");
  }

  std::vector<Port> ports;
};

TEST_F(Shifts, LabelsThatAreShiftedTwiceAreSaid) {
  auto shifted = [](int64_t input, int64_t row, int64_t k) {
    return token(row, k + input);
  };
  EXPECT_TRUE(saysNothing(shifted));
  ports[1].use = InputUse::ShiftedLabels;
  const std::string said =
      "input 'labels' holds the ids of the next position, and the loss shifts "
      "its labels itself: it predicts 2 positions ahead";
  EXPECT_EQ(lastText(shifted), said);
  EXPECT_EQ(lastText([&](int64_t input, int64_t row, int64_t k) {
              return input == 1 && k % 2 == row % 2 ? -100
                                                    : shifted(input, row, k);
            }),
            said);
  // One other label suffices.
  EXPECT_TRUE(saysNothing([&](int64_t input, int64_t row, int64_t k) {
    return input == 1 && row == 5 && k == 4 ? 49 : shifted(input, row, k);
  }));
  EXPECT_TRUE(saysNothing(
      [](int64_t, int64_t row, int64_t k) { return token(row, k); }));
}

TEST_F(Shifts, ValuesThatAreReadBeforeTheyArePredictedAreSaid) {
  for (Port &port : ports) {
    port.dtype = DType::F32;
    port.use = InputUse::Data;
    port.globalShape = {2, 3, 2};
    port.ignored.reset();
  }
  // Rows of two numbers, which are those of the next position.
  auto shifted = [](int64_t input, int64_t row, int64_t k) {
    return token(row, k + 2 * input) + 0.5;
  };
  const std::string said =
      "input 'labels' holds the values of the next position of input 'ids', "
      "which the scores of each position depend on: the model reads what it "
      "predicts; is a causal mask missing, or does an op mix positions?";
  EXPECT_TRUE(saysNothing(shifted));
  ports[1].dependence.lookahead = {{"ids", 0}};
  EXPECT_TRUE(saysNothing(shifted));
  ports[1].dependence.lookahead = {{"ids", 1}};
  EXPECT_EQ(lastText(shifted), said);
  // One number later is no position.
  EXPECT_TRUE(saysNothing([](int64_t input, int64_t row, int64_t k) {
    return token(row, k + input) + 0.5;
  }));
}

TEST_F(Shifts, LabelsThatAreNotShiftedAreSaid) {
  auto masked = [](int64_t input, int64_t row, int64_t k) {
    return input == 1 && k < 2 ? -100 : token(row, k);
  };
  const std::string said =
      "input 'labels' holds the ids of the same position where it is not "
      "ignored, and the loss does not shift its labels";
  EXPECT_EQ(lastText(masked), said);
  ports[1].use = InputUse::ShiftedLabels;
  EXPECT_TRUE(saysNothing(masked));
}

TEST_F(Shifts, IdsThatAreLabelsAreSaid) {
  const std::string said = "input 'ids' holds the labels of the next "
                           "position: are the two swapped?";
  EXPECT_EQ(lastText([](int64_t input, int64_t row, int64_t k) {
              return token(row, k + 1 - input);
            }),
            said);
  // Sequences of one constant say nothing.
  EXPECT_EQ(lastText([](int64_t, int64_t row, int64_t) { return 1.0 * row; }),
            "inputs 'ids' and 'labels' hold equal values");
}

TEST_F(Shifts, LabelsOfAnotherOffsetAreSaid) {
  auto offset = [&](int64_t by) {
    return lastText([=](int64_t input, int64_t row, int64_t k) {
      return token(row, k + 3 + input * by);
    });
  };
  EXPECT_EQ(offset(2), "input 'labels' holds the ids of 2 positions later; "
                       "expected those of the next position");
  EXPECT_EQ(offset(-2), "input 'labels' holds the ids of 2 positions before; "
                        "expected those of the next position");
  EXPECT_EQ(offset(1).find("input 'labels': "), 0u);
  ports[1].use = InputUse::ShiftedLabels;
  EXPECT_EQ(offset(2), "input 'labels' holds the ids of 2 positions later, and "
                       "the loss shifts its labels itself: it predicts 3 "
                       "positions ahead");
}

TEST_F(Shifts, RolledLabelsAreSaid) {
  auto rolled = [&](int64_t first) {
    return lastText([=](int64_t input, int64_t row, int64_t k) {
      int64_t at = (k + input) % 6;
      return at == 0 && first >= 0 ? first : token(row, at);
    });
  };
  EXPECT_EQ(rolled(-1).find("the last label of each sequence of input "
                            "'labels' is the first id of the sequence"),
            0u);
  // The next sequence may begin with the same token.
  EXPECT_EQ(rolled(49).find("input 'labels': "), 0u);
}

} // namespace
} // namespace dpc::rt
