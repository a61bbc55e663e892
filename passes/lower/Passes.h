//===- Passes.h - Passes and pipelines of lowering --------------*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_PASSES_H
#define DPC_PASSES_LOWER_PASSES_H

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

#endif // DPC_PASSES_LOWER_PASSES_H
