//===- Percent.h - numbers and shares in messages ---------------*- C++ -*-===//
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace dpc::rt {

/// "37.5 %" for 0.375
inline std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

inline std::string percent(int64_t part, int64_t all) {
  return percent(static_cast<double>(part) / static_cast<double>(all));
}

/// Four digits, or all digits of a whole number.
inline std::string spellNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text,
                std::rint(value) == value && std::fabs(value) < 1e15 ? "%.0f"
                                                                     : "%.4g",
                value);
  return text;
}

} // namespace dpc::rt
