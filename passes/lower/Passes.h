//===- Passes.h - Passes and pipelines of lowering --------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#include "passes/lower/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"

void registerLoweringPasses();

} // namespace dpc
