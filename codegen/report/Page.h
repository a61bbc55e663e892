//===- Page.h - What report.html is made of ---------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_REPORT_PAGE_H
#define DPC_CODEGEN_REPORT_PAGE_H

#include <string_view>

namespace dpc::report {

/// The files of this folder, and the chart library.
struct PageParts {
  std::string_view page;   ///< page.html
  std::string_view style;  ///< style.css
  std::string_view script; ///< The scripts, one after the other.
  std::string_view charts; ///< Empty where there was none when this was built.
};
PageParts pageParts();

} // namespace dpc::report

#endif // DPC_CODEGEN_REPORT_PAGE_H
