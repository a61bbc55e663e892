//===- Expect.h - expectations about texts ----------------------*- C++ -*-===//
#pragma once

#include <gtest/gtest.h>

#define EXPECT_HAS(TEXT, PART)                                                 \
  EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(PART),                 \
                      std::string(TEXT))
