//===- FirstError.h - Keeps the first diagnostic ---------------*- C++ -*-===//
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <thread>

namespace dpc {

/// Captures the diagnostics of the current thread during its lifetime, so that
/// a strategy that cannot be compiled does not end the compilation.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (std::this_thread::get_id() != owner)
            return mlir::failure();
          if (line.empty() &&
              diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            line = diagnostic.str();
          return mlir::success();
        }) {}

  std::string text() const {
    return line.empty() ? "cannot be compiled" : line;
  }

private:
  std::thread::id owner = std::this_thread::get_id();
  std::string line;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace dpc
