//===- OpTableTest.cpp - Each op has its interfaces or a reason -----------===//
#include "tools/driver/OpTable.h"

#include <gtest/gtest.h>

namespace dpc::test {
namespace {

constexpr OpColumn kNeeded[] = {OpColumn::rule, OpColumn::cost,
                                OpColumn::gradient, OpColumn::lowering};

TEST(OpTable, WhatIsMissingHasAReasonAndNothingElseHas) {
  std::vector<OpRow> rows = opRows();
  EXPECT_GE(rows.size(), 58u);
  for (const OpRow &row : rows)
    for (OpColumn column : kNeeded)
      EXPECT_NE(row.has[static_cast<int>(column)],
                !whyNot(row.name, column).empty())
          << row.name << ", column " << static_cast<int>(column);
}

TEST(OpTable, AnOpNobodyKnowsHasNoReason) {
  for (OpColumn column : kNeeded)
    EXPECT_EQ(whyNot("dpc.new_op", column), "");
}

} // namespace
} // namespace dpc::test
