//===- PairFactsTest.cpp - ids with the masks and labels of others --------===//
#include "runtime/facts/DataFacts.h"
#include "runtime/facts/PassageSet.h"
#include "test/unit/runtime/Expect.h"

#include <functional>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Rows of 16 ids, and of another input.
class PairFacts : public ::testing::Test {
protected:
  static constexpr int64_t kRows = 128, kLength = 16;
  using Value = std::function<int64_t(int64_t row, int64_t k)>;

  PairFacts() {
    for (const char *name : {"ids", "other"}) {
      Port port{name, 0, DType::I64, {4, kLength}, {}, 64};
      ports.push_back(port);
    }
    ports[0].use = InputUse::Ids;
  }

  /// Returns the lines that are not about one input.
  std::vector<std::string> texts(const std::vector<Value> &values) const {
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < count * kLength; ++i)
        for (size_t input = 0; input < to.size(); ++input)
          storeFromDouble(to[input], DType::I64, i,
                          static_cast<double>(
                              values[input](first + i / kLength, i % kLength)));
      return Status::success();
    };
    std::vector<int64_t> perRow(ports.size(), kLength);
    std::vector<std::string> found =
        scanRows(ports, perRow, "sample", kRows, read)->texts();
    found.erase(found.begin(), found.begin() + int64_t(ports.size()));
    return found;
  }

  /// An id from 3 to 63 without an order.
  static int64_t drawn(int64_t row, int64_t k, uint64_t seed = 1) {
    return 3 +
           int64_t(mixed(uint64_t(row) * 1000 + uint64_t(k) + seed * 77777) %
                   61);
  }
  /// A text: each id mostly gives the next one.
  static int64_t text(int64_t row, int64_t k, uint64_t seed = 1) {
    int64_t id = drawn(row, 0, seed);
    for (int64_t i = 1; i <= k; ++i)
      id = drawn(row, i, seed) % 5 == 0 ? drawn(row, i + 100, seed)
                                        : drawn(id, 999, 0);
    return id;
  }
  static int64_t lengthOf(int64_t row) { return 4 + row % 13; }
  static int64_t padded(int64_t row, int64_t k) {
    return k < lengthOf(row) ? drawn(row, k) : 1;
  }

  std::vector<Port> ports;
};

using Strings = std::vector<std::string>;

TEST_F(PairFacts, AMaskOfOtherSamplesIsSaid) {
  ports[1].limit = 0;
  ports[1].dependence.hidden = 0;
  auto mask = [](int64_t row, int64_t k) -> int64_t {
    return k < lengthOf(row) ? 1 : 0;
  };
  const Strings said = {
      "in 110 samples, input 'ids' ends with a run of 1, and input 'other' "
      "shows them in 80: if they are padding, does the mask belong to these "
      "samples?"};
  EXPECT_EQ(texts({padded, mask}), Strings());
  EXPECT_EQ(
      texts({padded, [&](int64_t row, int64_t k) { return mask(row + 5, k); }}),
      said);
  // The first one may end the text.
  EXPECT_EQ(
      texts({padded, [](int64_t row,
                        int64_t k) { return k <= lengthOf(row) ? 1 : 0; }}),
      Strings());
  // Each sample begins with the id of padding.
  auto marked = [](int64_t row, int64_t k) {
    return k == 0 ? 1 : padded(row, k);
  };
  EXPECT_EQ(texts({marked, mask}), Strings());
  EXPECT_EQ(
      texts({marked, [&](int64_t row, int64_t k) { return mask(row + 5, k); }}),
      said);
  // The input does not hide tokens.
  ports[1].dependence.hidden.reset();
  EXPECT_EQ(
      texts({padded, [&](int64_t row, int64_t k) { return mask(row + 5, k); }}),
      Strings());
}

TEST_F(PairFacts, AMaskOfPaddingAtTheFrontIsCompared) {
  ports[1].limit = 0;
  ports[1].dependence.hidden = 0;
  auto front = [](int64_t row, int64_t k) { return padded(row, 15 - k); };
  EXPECT_EQ(
      texts({front, [](int64_t row,
                       int64_t k) { return 15 - k < lengthOf(row) ? 1 : 0; }}),
      Strings());
  EXPECT_HAS(texts({front, [](int64_t row,
                              int64_t k) { return k < lengthOf(row) ? 1 : 0; }})
                 .back(),
             "begins with a run of 1");
}

TEST_F(PairFacts, LabelsOfPaddingThatCountAreSaid) {
  ports[1].use = InputUse::Labels;
  ports[1].ignored = 0;
  auto next = [](int64_t row, int64_t k) { return padded(row, k + 1); };
  EXPECT_EQ(texts({padded, next}),
            Strings{"in 110 samples, input 'ids' ends with a run of 1, and the "
                    "loss counts 660 labels there that are 1 in input "
                    "'other': if they are padding, expected 0, which the loss "
                    "ignores"});
  ports[1].ignored = 1;
  EXPECT_EQ(texts({padded, next}), Strings());
  // An id that texts have as well, such as a space.
  ports[1].ignored = 0;
  auto spaced = [](int64_t row, int64_t k) {
    return k % 3 == 1 ? 1 : padded(row, k);
  };
  EXPECT_EQ(texts({spaced,
                   [&](int64_t row, int64_t k) { return spaced(row, k + 1); }}),
            Strings());
  // Weights of the labels.
  ports.push_back({"weights", 0, DType::I64, {4, kLength}, {}, 0});
  ports[2].dependence.weighsLoss = true;
  EXPECT_EQ(
      texts({padded, next,
             [](int64_t row, int64_t k) { return k < lengthOf(row) ? 1 : 0; }}),
      Strings());
  EXPECT_HAS(
      texts({padded, next,
             [](int64_t row, int64_t k) { return k < lengthOf(row) ? 0 : 1; }})
          .back(),
      "and input 'weights' weights their labels in 110: if they are padding, ");
}

TEST_F(PairFacts, IdsThatAreLabelsAndPaddedAreSaid) {
  ports.pop_back();
  ports[0].use = InputUse::IdsAndLabels;
  EXPECT_EQ(texts({padded}),
            Strings{"in 110 samples, input 'ids' ends with a run of 1, and the "
                    "loss counts 660 labels there that are 1: if they are "
                    "padding, the loss should ignore them"});
}

TEST_F(PairFacts, LabelsOfOtherSamplesAreSaid) {
  ports[1].use = InputUse::Labels;
  ports[1].ignored = -100;
  auto ids = [](int64_t row, int64_t k) { return text(row, k); };
  auto other = [](int64_t row, int64_t k) { return text(row, k + 1, 9); };
  const std::string end =
      " input 'ids'; the labels of a sample match its own ids no better than "
      "those of another one: were the two shuffled separately?";
  EXPECT_EQ(texts({ids, other}),
            Strings{"input 'other' holds text like" + end});
  // Labels in another order, also beside ids of another vocabulary.
  auto shuffled = [](int64_t row, int64_t k) {
    return text((row + 7) % kRows, k + 1);
  };
  const std::string of = "input 'other' holds the ids of other samples of";
  EXPECT_EQ(texts({ids, shuffled}), Strings{of + end});
  ports.push_back({"segments", 0, DType::I64, {4, kLength}, {}, 2});
  ports[2].use = InputUse::Ids;
  EXPECT_EQ(texts({ids, shuffled, [](int64_t, int64_t k) { return k / 8; }}),
            Strings{of + end});
  ports.pop_back();
  // Few ids, of which all pairs occur.
  auto letters = [](int64_t row, int64_t k) { return drawn(row, k) % 16; };
  for (Port &port : ports)
    port.limit = 16;
  EXPECT_EQ(texts({letters,
                   [&](int64_t row, int64_t k) {
                     return letters((row + 7) % kRows, k + 1);
                   }}),
            Strings{of + end});
  EXPECT_EQ(texts({letters, [&](int64_t row,
                                int64_t k) { return letters(row, k + 1); }}),
            Strings());
  for (Port &port : ports)
    port.limit = 64;
  // Labels far ahead, reversed, or of another language.
  for (const Value &labels : std::vector<Value>{
           [](int64_t row, int64_t k) { return text(row, k + 5); },
           [](int64_t row, int64_t k) { return text(row, 15 - k); },
           [](int64_t row, int64_t k) { return 66 - text(row, k); }})
    EXPECT_EQ(texts({ids, labels}), Strings());
  // Random numbers have no texts, and labels of single positions are those of
  // a masked language model.
  EXPECT_EQ(texts({[](int64_t row, int64_t k) { return drawn(row, k); },
                   [](int64_t row, int64_t k) { return drawn(row, k, 9); }}),
            Strings());
  EXPECT_EQ(texts({ids,
                   [&](int64_t row, int64_t k) {
                     return k % 8 == 0 ? -100 : other(row, k);
                   }}),
            Strings());
  // Ids of a decoder, of another length.
  ports.push_back({"decoder", 0, DType::I64, {4, kLength}, {}, 64});
  ports[2].use = InputUse::Ids;
  EXPECT_EQ(texts({ids, other,
                   [](int64_t row, int64_t k) {
                     return k == 0 ? 1 : text(row, k, 9);
                   }}),
            Strings());
}

TEST_F(PairFacts, LaterLabelsBesideTheNextOnesAreNoMistake) {
  ports[1].use = InputUse::Labels;
  ports.push_back(ports[1]);
  ports[2].name = "later";
  auto ahead = [](int64_t by) {
    return [=](int64_t row, int64_t k) { return drawn(row, k + by); };
  };
  EXPECT_EQ(texts({ahead(0), ahead(1), ahead(2)}), Strings());
  // The first one is a mistake, and the others follow it.
  EXPECT_EQ(
      texts({ahead(0), ahead(3), ahead(2)}),
      Strings({"input 'later' holds the ids of 2 positions later; expected "
               "those of the next position"}));
}

} // namespace
} // namespace dpc::rt
