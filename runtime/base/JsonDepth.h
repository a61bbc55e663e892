//===- JsonDepth.h - how deep a JSON text nests -----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_JSONDEPTH_H
#define DPC_RUNTIME_BASE_JSONDEPTH_H

#include <string_view>

namespace dpc::rt {

/// Whether lists and objects nest deeper than any of our files. Such a text
/// would use up the stack where parsed JSON is written or copied: readers of
/// files refuse it before they parse.
bool nestsTooDeep(std::string_view json);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_JSONDEPTH_H
