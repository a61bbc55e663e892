//===- Session.h - State that a compilation shares --------------*- C++ -*-===//
#pragma once

#include "cost-model/report/TextLines.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

namespace dpc {

/// Registers the dialects, passes and interface models of the compiler.
void registerEverything(mlir::DialectRegistry &registry);

/// Each text replaces the previous one.
class ProgressView {
public:
  virtual ~ProgressView() = default;
  /// Shows `text`, unless the previous text has just appeared.
  virtual void show(const std::string &text) = 0;
  /// Shows `text` at once, because a long phase begins.
  virtual void begin(const std::string &text) = 0;
  virtual void clear() = 0;
};

/// Receives messages and results of a compilation. The defaults ignore them.
class Reporter {
public:
  virtual ~Reporter() = default;
  /// Receives one line: why there is no result, or what was refused.
  virtual void error(const std::string &) {}
  /// Receives one line that does not end the compilation.
  virtual void warning(const std::string &) {}
  /// Returns the stream for results: a report, an explanation, a program.
  virtual llvm::raw_ostream &output() { return llvm::nulls(); }
  /// Returns the width and colors of tables on output().
  virtual cost::TextForm form() const { return {}; }
  /// Returns null if progress is not shown.
  virtual ProgressView *progress() { return nullptr; }
};

/// The options, the MLIR context and the messages of one compilation. Must
/// outlive all modules. MLIR's errors become errors of the session; MLIR's
/// warnings become notices, and its remarks become remarks.
class Session {
public:
  Session(const CompileOptions &options, Reporter &reporter);
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const CompileOptions &options() const { return asked; }
  /// Replaces --precision; `why` says why, for the first line of the report.
  void choosePrecision(const std::string &precision, const std::string &why) {
    asked.precision = precision;
    asked.whyPrecision = why;
  }
  mlir::MLIRContext &context() { return *mlir; }
  Reporter &reporter() { return sink; }

  /// Reports the error unless there was one before, because later errors are
  /// consequences of the first. Always returns failure.
  mlir::LogicalResult fail(const std::string &message);
  bool hasFailed() const { return !first.empty(); }
  const std::string &firstError() const { return first; }

  /// Adds `note` to the line of the first error.
  void noteOnFailure(const std::string &note) { failureNote = note; }

  /// Stores an error that end() reports. The compilation continues.
  void refuse(const std::string &message) { refusals.push_back(message); }
  /// Reports the stored refusals. Returns `result`, or failure if there are
  /// refusals.
  mlir::LogicalResult end(mlir::LogicalResult result);

  /// Adds a line to the report's remarks, unless it is there already.
  void remark(const std::string &text);
  /// Adds a remark that a report on a terminal shows however long it is.
  void notice(const std::string &text);
  std::vector<std::string> &remarks() { return remarkLines; }
  size_t notices() const { return noticeCount; }

  void begin(const std::string &phase);
  void clearProgress();

  /// With --dump-ir-dir, writes `module` to a file. The file name is a serial
  /// number and `phase`.
  void dump(llvm::StringRef phase, mlir::ModuleOp module);

private:
  CompileOptions asked;
  Reporter &sink;
  std::unique_ptr<mlir::MLIRContext> mlir;
  std::string first, failureNote;
  std::vector<std::string> refusals, remarkLines;
  size_t noticeCount = 0; ///< The first of remarkLines.
  int dumps = 0;
};

/// While it exists, stores the first error among the diagnostics and drops all
/// others.
class SilencedErrors {
public:
  explicit SilencedErrors(mlir::MLIRContext *context);
  /// Returns the error, or "".
  const std::string &text() const { return first; }

private:
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace dpc
