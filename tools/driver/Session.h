//===- Session.h - What one compilation shares ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_SESSION_H
#define DPC_TOOLS_DRIVER_SESSION_H

#include "cost-model/report/TextLines.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

namespace dpc {

/// Registers the dialects, passes and interface models of the compiler.
void registerEverything(mlir::DialectRegistry &registry);

/// Shows how far a compilation is. Each text replaces the one before.
class ProgressView {
public:
  virtual ~ProgressView() = default;
  /// Shows `text`, one line, unless the text before it is too recent to be
  /// read.
  virtual void show(const std::string &text) = 0;
  /// Shows `text` at once: something begins that may take long.
  virtual void begin(const std::string &text) = 0;
  virtual void clear() = 0;
};

/// Takes what a compilation tells its user. This one drops all of it.
class Reporter {
public:
  virtual ~Reporter() = default;
  /// Takes one line that says why there is no result, or what was refused.
  virtual void error(const std::string &) {}
  /// Takes one line that must not be overlooked; the compilation goes on.
  virtual void warning(const std::string &) {}
  /// Returns where results are printed: a report, an explanation, a program.
  virtual llvm::raw_ostream &output() { return llvm::nulls(); }
  /// Returns the form of the tables that are printed there.
  virtual cost::TextForm form() const { return {}; }
  /// Returns null where nobody watches.
  virtual ProgressView *progress() { return nullptr; }
};

/// The options, the MLIR context and the messages of one compilation. Every
/// stage of Compile.h takes it. Errors among MLIR's diagnostics are errors of
/// the session, warnings and remarks are its remarks. Outlives all modules.
class Session {
public:
  Session(const CompileOptions &options, Reporter &reporter);
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const CompileOptions &options() const { return asked; }
  mlir::MLIRContext &context() { return *mlir; }
  Reporter &reporter() { return sink; }

  /// Reports the first error only: those that follow are consequences. Always
  /// returns failure.
  mlir::LogicalResult fail(const std::string &message);
  /// Whether there was an error.
  bool hasFailed() const { return !first.empty(); }
  /// Returns the line that was reported, or "".
  const std::string &firstError() const { return first; }

  /// Notes one line for end(): this is refused, and all else goes on.
  void refuse(const std::string &message) { refusals.push_back(message); }
  /// Reports what was refused. Returns `result`, or failure after a refusal.
  mlir::LogicalResult end(mlir::LogicalResult result);

  /// Adds a line to the report's remarks, unless it is there already.
  void remark(const std::string &text);
  std::vector<std::string> &remarks() { return remarkLines; }

  /// Shows what begins.
  void begin(const std::string &phase);
  void clearProgress();

  /// Writes `module` into the folder of --dump-ir-dir, where that is given, as
  /// a file with the next number and the name of the phase.
  void dump(llvm::StringRef phase, mlir::ModuleOp module);

private:
  const CompileOptions &asked;
  Reporter &sink;
  std::unique_ptr<mlir::MLIRContext> mlir;
  std::string first;
  std::vector<std::string> refusals, remarkLines;
  int dumps = 0;
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_SESSION_H
