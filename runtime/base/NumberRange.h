//===- NumberRange.h - The numbers that a reader accepts --------*- C++ -*-===//
#pragma once

#include <limits>

namespace dpc {

/// A range of accepted numbers. `text` describes the range in messages.
struct NumberRange {
  double low = 0;
  bool lowIncluded = true;
  double high = std::numeric_limits<double>::infinity();
  const char *text = "a number >= 0";

  bool contains(double value) const;
};
inline constexpr NumberRange positive{
    0, false, std::numeric_limits<double>::infinity(), "a number > 0"};
inline constexpr NumberRange nonNegative{};
inline constexpr NumberRange fraction{0, false, 1, "a number > 0 and <= 1"};
inline constexpr NumberRange atLeastOne{
    1, true, std::numeric_limits<double>::infinity(), "a number >= 1"};

} // namespace dpc
