//===- Page.h - The parts of report.html ------------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_REPORT_PAGE_H
#define DPC_CODEGEN_REPORT_PAGE_H

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

#endif // DPC_CODEGEN_REPORT_PAGE_H
