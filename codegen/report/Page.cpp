//===- Page.cpp - The parts of report.html --------------------------------===//
#include "codegen/report/Page.h"

namespace dpc::report {

// Generated from the files of this folder (CMakeLists.txt).
extern const std::string_view page, style, script, library;

PageParts pageParts() { return {page, style, script, library}; }

} // namespace dpc::report
