//===- Percent.h - shares in messages ---------------------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace dpc::rt {

/// "37.5 %"
inline std::string percent(int64_t part, int64_t all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%",
                100.0 * static_cast<double>(part) / static_cast<double>(all));
  return text;
}

} // namespace dpc::rt
