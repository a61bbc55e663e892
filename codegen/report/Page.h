//===- Page.h - The parts of report.html ------------------------*- C++ -*-===//
#pragma once

#include <string_view>

namespace dpc::report {

/// The files of this folder, and the chart library.
struct PageParts {
  std::string_view page;
  std::string_view style;
  std::string_view script;
  std::string_view charts; ///< Empty if the build had no chart library.
};
PageParts pageParts();

} // namespace dpc::report
