//===- Page.cpp - What report.html is made of -----------------------------===//
#include "codegen/report/Page.h"

namespace dpc::report {

// Made of the files of this folder when building (CMakeLists.txt).
extern const std::string_view page, style, script, library;

PageParts pageParts() { return {page, style, script, library}; }

} // namespace dpc::report
