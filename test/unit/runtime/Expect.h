//===- Expect.h - expectations about texts ----------------------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_RUNTIME_EXPECT_H
#define DPC_TEST_UNIT_RUNTIME_EXPECT_H

#include <gtest/gtest.h>

#define EXPECT_HAS(TEXT, PART)                                                 \
  EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(PART),                 \
                      std::string(TEXT))

#endif // DPC_TEST_UNIT_RUNTIME_EXPECT_H
