//===- StablehloText.h - StableHLO programs for tests -----------*- C++ -*-===//
#pragma once

#include "frontends/stablehlo/Import.h"
#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace dpc::test {

inline std::string contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Outcome {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string error;
  std::vector<std::string> remarks;
};

inline Outcome import(const std::string &text,
                      const ImportOptions &options = {}) {
  static mlir::MLIRContext context;
  Outcome outcome;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
          EXPECT_EQ(outcome.error, "")
              << "a second message: " << diagnostic.str();
          outcome.error = diagnostic.str();
        } else {
          outcome.remarks.push_back(diagnostic.str());
        }
        return mlir::success();
      });
  auto module = importStableHlo(llvm::MemoryBuffer::getMemBufferCopy(text),
                                "m.mlir", context, options);
  EXPECT_EQ(mlir::failed(module), !outcome.error.empty());
  EXPECT_EQ(outcome.error.find('\n'), std::string::npos) << outcome.error;
  EXPECT_FALSE(context.allowsUnregisteredDialects());
  if (mlir::succeeded(module))
    outcome.module = std::move(*module);
  return outcome;
}

/// A module with a function @main. `arguments` is, for example, "%a:
/// tensor<4xf32>", and `body` is in generic form and ends with the return.
inline std::string program(const std::string &arguments,
                           const std::string &results,
                           const std::string &body) {
  return "module {\n func.func public @main(" + arguments + ") -> (" + results +
         ") {\n" + body + "\n }\n}\n";
}

/// A program with one op, which defines `%r` and can use `%a: tensor<4x6xf32>`.
inline std::string one(const std::string &op, const std::string &result) {
  return program("%a: tensor<4x6xf32>", result,
                 "  %r = " + op + "\n  func.return %r : " + result);
}

inline void expectRefused(const std::string &text,
                          const std::vector<std::string> &parts,
                          const ImportOptions &options = {}) {
  std::string error = import(text, options).error;
  for (const std::string &part : parts)
    EXPECT_NE(error.find(part), std::string::npos)
        << "'" << part << "' is not in: " << error;
}

/// Returns "NAME ROLE" for each argument, or "NAME ROLE OF" for a state.
inline std::vector<std::string> argumentsOf(mlir::func::FuncOp function) {
  std::vector<std::string> found;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string text;
    for (llvm::StringRef name : {attr::kName, attr::kRole, attr::kOf})
      if (auto value = function.getArgAttrOfType<mlir::StringAttr>(i, name))
        text += (text.empty() ? "" : " ") + value.getValue().str();
    found.push_back(text);
  }
  return found;
}

} // namespace dpc::test
