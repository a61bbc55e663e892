//===- ParseProgram.h - IR text in tests ------------------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace dpc {

struct ParsedProgram {
  explicit ParsedProgram(llvm::StringRef text) {
    context.loadDialect<DpcDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (module)
      func = *module->getOps<mlir::func::FuncOp>().begin();
  }

  /// Returns op number `index` of those named `name`, or null.
  mlir::Operation *op(llvm::StringRef name, int index = 0) {
    for (mlir::Operation &candidate : func.getBody().front())
      if (candidate.getName().stripDialect() == name && index-- == 0)
        return &candidate;
    return nullptr;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func;
};

} // namespace dpc
