//===- IndexCheckTest.cpp - ids and labels out of range -------------------===//
#include "runtime/facts/IndexCheck.h"

#include "runtime/base/HostTensor.h"
#include "runtime/io/InputSource.h"

#include <cstring>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

Port ids(std::optional<int64_t> ignored = std::nullopt) {
  return {"ids", 0, DType::I64, {4}, {}, 10, ignored};
}

TEST(IndexCheck, NegativeAndLargeValuesAreFound) {
  for (DType type : {DType::I64, DType::I32, DType::I16, DType::I8})
    for (int value : {-1, -100, 10}) {
      HostTensor data = HostTensor::zeros(type, {4});
      data.set(1, 9);
      EXPECT_FALSE(findInvalidIndex(ids(), type, data.data.data(), 4));
      data.set(2, value);
      auto bad = findInvalidIndex(ids(), type, data.data.data(), 4);
      ASSERT_TRUE(bad) << nameOf(type) << " " << value;
      EXPECT_EQ(bad->position, 2);
      EXPECT_EQ(bad->value, std::to_string(value));
    }
}

TEST(IndexCheck, UnsignedValuesDoNotWrap) {
  HostTensor data = HostTensor::zeros(DType::U16, {4});
  data.set(3, 65535);
  auto bad = findInvalidIndex(ids(-1), DType::U16, data.data.data(), 4);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->value, "65535");
  uint64_t most = UINT64_MAX;
  bad = findInvalidIndex(ids(-1), DType::U64, &most, 1);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->value, "18446744073709551615");
}

TEST(IndexCheck, OnlyTheIgnoredLabelMayBeOutside) {
  int64_t values[] = {0, -100, 9, -1};
  auto bad = findInvalidIndex(ids(-100), DType::I64, values, 4);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->position, 3);
  EXPECT_EQ(checkIndexes(ids(-100), DType::I64, values, 4, "f").message(),
            "f: element 3 of input 'ids' is -1, expected 0 to 9, or -100 "
            "(ignored)");
  EXPECT_EQ(checkIndexes(ids(), DType::I64, values, 4, "f").message(),
            "f: element 1 of input 'ids' is -100, expected 0 to 9");
}

TEST(IndexCheck, TheIgnoredLabelOfAnUnsignedTypeIsNamed) {
  for (auto [label, type] : {std::pair<int64_t, const char *>{156, "u8"},
                             {65436, "u16"},
                             {4294967196, "u32"}}) {
    std::string error =
        checkIndexes(ids(-100), DType::I64, &label, 1, "f").message();
    EXPECT_TRUE(
        error.ends_with(concat("; as ", type, ", -100 becomes ", label)))
        << error;
    EXPECT_TRUE(checkIndexes(ids(), DType::I64, &label, 1, "f")
                    .message()
                    .ends_with("expected 0 to 9"));
  }
}

TEST(IndexCheck, OtherInputsAcceptEveryValue) {
  int64_t values[] = {-1, INT64_MIN, INT64_MAX};
  Port port = ids();
  port.limit = 0;
  EXPECT_FALSE(findInvalidIndex(port, DType::I64, values, 3));
  EXPECT_TRUE(acceptsIndex(port, -1));
}

/// As emb(ids + 3) of a table with 10 rows.
TEST(IndexCheck, ValuesMayBeginBelowOrAboveZero) {
  for (int64_t first : {-3, 3}) {
    Port port = ids();
    port.first = first;
    port.limit = first + 10;
    EXPECT_TRUE(isIndex(port));
    EXPECT_EQ(expectedIndexes(port),
              std::to_string(first) + " to " + std::to_string(first + 9));
    for (int64_t value : {first, first + 9})
      EXPECT_TRUE(acceptsIndex(port, value));
    for (int64_t value : {first - 1, first + 10})
      EXPECT_FALSE(acceptsIndex(port, value));
    HostTensor random = HostTensor::zeros(DType::I64, {200});
    fillInput(random, RandomStream(1, "ids"), port);
    EXPECT_FALSE(findInvalidIndex(port, DType::I64, random.data.data(), 200));
    EXPECT_NE(random.at(0), random.at(1));
  }
}

TEST(IndexCheck, DataNeedNotBeAligned) {
  char bytes[1 + 2 * sizeof(int64_t)];
  int64_t values[] = {3, -7};
  std::memcpy(bytes + 1, values, sizeof values);
  auto bad = findInvalidIndex(ids(), DType::I64, bytes + 1, 2);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->value, "-7");
}

TEST(IndexCheck, FixedInputsAreChecked) {
  Plan plan;
  plan.inputs = {ids()};
  HostTensor good = HostTensor::zeros(DType::I64, {4}), bad = good;
  bad.set(1, -1);
  EXPECT_TRUE(fixedInputs(plan, {{{"ids", good}}}).ok());
  EXPECT_EQ(
      fixedInputs(plan, {{{"ids", good}}, {{"ids", bad}}}).status().message(),
      "step 2: element 1 of input 'ids' is -1, expected 0 to 9");
}

} // namespace
} // namespace dpc::rt
