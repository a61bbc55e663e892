//===- ReduceKind.h - what collectives make of many values ------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_REDUCEKIND_H
#define DPC_RUNTIME_PLAN_REDUCEKIND_H

#include <string_view>

namespace dpc::rt {

enum class ReduceKind { Sum, Max, Min, Prod };
std::string_view nameOf(ReduceKind kind);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_REDUCEKIND_H
