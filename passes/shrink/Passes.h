//===- Passes.h - Passes that make a program smaller ------------*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/shrink/Passes.h.inc"

inline void registerShrinkPasses() { registerDpcShrinkPasses(); }

} // namespace dpc
