//===- SequenceFactsTest.cpp - passages of ids, and lengths ---------------===//
#include "runtime/facts/DataFacts.h"
#include "runtime/facts/HeldOut.h"
#include "test/unit/runtime/Expect.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Returns facts on rows of `length` ids, which `id(position)` gives for the
/// positions row * length + k + offset.
template <typename Id>
static DataFacts factsOnIds(Id id, int64_t rows, int64_t length,
                            int64_t offset = 0) {
  Port port{"ids", 0, DType::I64, {4, length}, {}, 5000};
  port.use = InputUse::Ids;
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < length * count; ++i)
      storeFromDouble(to[0], DType::I64, i,
                      static_cast<double>(id(first * length + i + offset)));
    return Status::success();
  };
  return std::move(*scanRows({port}, {length}, "sample", rows, read));
}

static int64_t textAt(int64_t position) {
  return static_cast<int64_t>((position * 2654435761u) >> 7) % 5000;
}

TEST(Sequences, PassagesThatAreTrainedAreSaid) {
  DataFacts training = factsOnIds(textAt, 100, 64);
  auto text = [&](const DataFacts &heldOut) {
    return passageText(training, "--data=t", heldOut);
  };
  // A slice has other rows.
  EXPECT_HAS(text(factsOnIds(textAt, 10, 64, 1010)),
             " % of the passages of 12 ids in input 'ids' of --eval-data are "
             "also in --data=t");
  EXPECT_EQ(commonText(training, "--data=t", factsOnIds(textAt, 10, 64, 1010)),
            "");
  EXPECT_HAS(text(factsOnIds(textAt, 30, 40, 64)), "also in --data=t");
  // Equal samples are already counted, and other text or padding is none.
  EXPECT_EQ(text(factsOnIds(textAt, 10, 64)), "");
  EXPECT_EQ(text(factsOnIds(textAt, 100, 64, 1000000)), "");
  auto padding = [](int64_t) { return 7; };
  EXPECT_EQ(passageText(factsOnIds(padding, 20, 64), "--data=t",
                        factsOnIds(padding, 20, 32)),
            "");
}

TEST(Sequences, MorePassagesThanAreKeptAreCompared) {
  DataFacts training = factsOnIds(textAt, 40000, 64);
  EXPECT_HAS(passageText(training, "--data=t",
                         factsOnIds(textAt, 1000, 64, 64 * 1000 + 7)),
             "also in --data=t");
}

TEST(Sequences, SortedLengthsAreSaid) {
  auto order = [](auto lengthOf) {
    return factsOnIds(
               [=](int64_t position) {
                 int64_t row = position / 64, k = position % 64;
                 return k < lengthOf(row) ? 1 + textAt(position) % 4999 : 0;
               },
               40, 64)
        .orderTexts();
  };
  EXPECT_EQ(order([](int64_t row) { return 8 + row; }),
            std::vector<std::string>{
                "the samples are sorted by the length of input 'ids' without "
                "padding (40 lengths): a step sees similar lengths"});
  EXPECT_EQ(order([](int64_t row) { return 60 - row / 2; }).size(), 1u);
  EXPECT_TRUE(order([](int64_t row) { return 8 + 7 * row % 40; }).empty());
  EXPECT_TRUE(order([](int64_t row) { return 8 + row / 20; }).empty());
  EXPECT_TRUE(order([](int64_t) { return 64; }).empty());
}

TEST(Sequences, IdsOfFewRowsAreSaid) {
  auto few = [](int64_t position) { return textAt(position) % 300; };
  auto remark = [](auto id, int64_t rows) {
    return factsOnIds(id, rows, 64)
        .sequences.front()
        .usedText(factsOnIds(id, rows, 64).inputs.front().port);
  };
  EXPECT_EQ(remark(few, 200),
            "input 'ids': the largest of 12800 ids is 299, but the model has "
            "5000 ids: does the tokenizer of the data belong to this model?");
  EXPECT_HAS(factsOnIds(few, 200, 64).texts().back(), "tokenizer");
  EXPECT_EQ(remark(few, 100), ""); // few ids
  // Most ids, of which nearly all occur.
  auto most = [](int64_t position) { return textAt(position) % 4000; };
  EXPECT_EQ(remark(most, 1300),
            "input 'ids': the largest of 83200 ids is 3999, and nearly all up "
            "to it occur, but the model has 5000 ids: does the tokenizer of "
            "the data belong to this model?");
  EXPECT_EQ(remark(most, 400), ""); // few ids
  auto padded = [](int64_t position) { return textAt(position) % 4500; };
  EXPECT_EQ(remark(padded, 1300), "");
  auto holes = [](int64_t position) { return textAt(position) % 2000 * 2; };
  EXPECT_EQ(remark(holes, 1300), "");
  EXPECT_EQ(remark(textAt, 200), "");
  // Positions of a sequence, and segments.
  EXPECT_EQ(remark([](int64_t position) { return position % 64; }, 200), "");
  EXPECT_EQ(remark([](int64_t position) { return position % 64 / 40; }, 200),
            "");
}

TEST(Sequences, IdsThatWereRoundedAreSaid) {
  auto textOf = [](int64_t divisor) {
    // From 0 to 4000, and large ones rounded.
    auto id = [=](int64_t position) {
      const int64_t drawn = position * position * 7919 % 4001;
      return drawn > 2048 ? drawn / divisor * divisor : drawn;
    };
    std::string found;
    for (const std::string &text : factsOnIds(id, 64, 64).texts())
      found += text.find("is odd") == std::string::npos ? "" : text;
    return found;
  };
  EXPECT_EQ(textOf(1), "");
  EXPECT_EQ(textOf(2), "input 'ids': none of the 1986 ids above 2048 is odd: "
                       "were they rounded to f16?");
}

/// Returns the second line on 20 rows of six labels of `use`. `value(row, k)`
/// is a label.
template <typename Value>
static std::string textOnRows(Value value, InputUse use = InputUse::Labels) {
  Port port{"y", 0, DType::I64, {4, 6}, {}, 10, -100};
  port.use = use;
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < 6 * count; ++i)
      storeFromDouble(to[0], DType::I64, i,
                      static_cast<double>(value(first + i / 6, i % 6)));
    return Status::success();
  };
  return scanRows({port}, {6}, "sample", 20, read)->texts()[1];
}

TEST(Rows, LabelsThatMayBePaddingAreSaid) {
  auto padded = [](int64_t label) {
    return [=](int64_t row, int64_t k) {
      return k < 4 ? (3 * row + k) % 10 : label;
    };
  };
  const std::string said = "input 'y': the labels at positions 4 to 5 are 7 in "
                           "all 20 samples; if they are padding, the loss "
                           "counts them; it ignores -100";
  EXPECT_EQ(textOnRows(padded(7)), said);
  EXPECT_EQ(textOnRows(padded(7), InputUse::ShiftedLabels), said);
  EXPECT_NE(textOnRows(padded(7), InputUse::Ids), said);
  EXPECT_HAS(
      textOnRows([&](int64_t row, int64_t k) { return padded(7)(row, 5 - k); }),
      "positions 0 to 1 are 7");
  EXPECT_HAS(
      textOnRows([&](int64_t row, int64_t k) { return padded(7)(row, 5 - k); },
                 InputUse::IdsAndLabels),
      "all 20 samples begin with 7 twice: was a mark of the begin added twice, "
      "or is it padding, which the loss counts?");
  auto longer = [&](int64_t row, int64_t k) {
    return k < 3 ? 7 : (3 * row + k) % 10;
  };
  EXPECT_HAS(textOnRows(longer), "positions 0 to 2 are 7");
  for (const std::string &other :
       {textOnRows(padded(-100)),                // ignored
        textOnRows([&](int64_t row, int64_t k) { // the end of a text
          return k == 4 ? row % 10 : padded(7)(row, k);
        }),
        textOnRows([&](int64_t row, int64_t k) { // one row has no padding
          return row == 11 ? k : padded(7)(row, k);
        })})
    EXPECT_EQ(other.find("positions"), std::string::npos) << other;
}

TEST(Rows, WeightsOfPaddingAreSaid) {
  Port labels{"y", 0, DType::I64, {4, 6}, {}, 10, -100};
  labels.use = InputUse::Labels;
  Port weights{"mask", 0, DType::I32, {4, 6}, {}, 0};
  weights.dependence.weighsLoss = true;
  auto textsWith = [&](auto weightAt) {
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < 6 * count; ++i) {
        const int64_t row = first + i / 6, k = i % 6;
        storeFromDouble(to[0], DType::I64, i,
                        k < 4 ? double((3 * row + k) % 10) : 7.0);
        storeFromDouble(to[1], DType::I32, i, weightAt(k));
      }
      return Status::success();
    };
    std::vector<std::string> texts =
        scanRows({labels, weights}, {6, 6}, "sample", 20, read)->texts();
    std::erase_if(texts, [](const std::string &text) {
      return text.find("positions") == std::string::npos;
    });
    return texts;
  };
  const std::vector<std::string> said = {
      "input 'y': the labels at positions 4 to 5 are 7 in all 20 samples; if "
      "they are padding, the loss counts them with the weights of input "
      "'mask'"};
  EXPECT_EQ(textsWith([](int64_t k) { return k < 4 ? 1.0 : 0.0; }),
            std::vector<std::string>());
  EXPECT_EQ(textsWith([](int64_t k) { return k < 4 ? 0.0 : 1.0; }), said);
  EXPECT_EQ(textsWith([](int64_t) { return 1.0; }), said);
}

} // namespace
} // namespace dpc::rt
