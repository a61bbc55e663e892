//===- Passes.h - Passes of the local altitude ------------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "runtime/base/Parallel.h"

namespace dpc {

#define GEN_PASS_DECL
#include "passes/local/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/local/Passes.h.inc"

inline void registerLocalPasses() { registerDpcLocalPasses(); }

/// Calls `work` on several threads for each function of `module` that has a
/// mesh or is named @step. `work` must not emit errors, because error handlers
/// may listen only to the calling thread.
inline void onEachStep(mlir::ModuleOp module,
                       llvm::function_ref<void(mlir::func::FuncOp)> work) {
  llvm::SmallVector<mlir::func::FuncOp> steps;
  for (auto func : module.getOps<mlir::func::FuncOp>())
    if ((func->hasAttr(attr::kMesh) || func.getName() == "step") &&
        !func.isDeclaration())
      steps.push_back(func);
  // Without multithreading, a context creates types without locks.
  if (!module.getContext()->isMultithreadingEnabled())
    llvm::for_each(steps, work);
  else
    parallelFor(steps.size(), 1, [&](size_t i) { work(steps[i]); });
}

} // namespace dpc
