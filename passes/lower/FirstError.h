//===- FirstError.h - Keeps the first diagnostic ---------------*- C++ -*-===//
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <thread>

namespace dpc {

/// Returns "model.mlir:3:7: " or "node name: ", or "" if `text` already names
/// the place.
inline std::string placeOf(mlir::Location location, const std::string &text) {
  std::string place, shown;
  if (auto file = location->findInstanceOf<mlir::FileLineColLoc>()) {
    shown = place = file.getFilename().str();
    if (file.getLine() > 0)
      place += ":" + std::to_string(file.getLine()) + ":" +
               std::to_string(file.getColumn());
  } else if (auto name = location->findInstanceOf<mlir::NameLoc>()) {
    shown = place = name.getName().str();
  }
  bool isSaid = place.empty() || text.find(shown) != std::string::npos;
  return isSaid ? "" : place + ": ";
}

/// Captures the diagnostics of the current thread during its lifetime, so that
/// a strategy that cannot be compiled does not end the compilation.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (std::this_thread::get_id() != owner)
            return mlir::failure();
          if (line.empty() &&
              diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
            line = diagnostic.str();
            line = placeOf(diagnostic.getLocation(), line) + line;
          }
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
