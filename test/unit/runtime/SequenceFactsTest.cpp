//===- SequenceFactsTest.cpp - passages of ids, and lengths ---------------===//
#include "runtime/io/DataFacts.h"
#include "test/unit/runtime/Expect.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

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

} // namespace
} // namespace dpc::rt
