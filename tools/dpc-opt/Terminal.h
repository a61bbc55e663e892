//===- Terminal.h - What a compilation shows on a terminal ------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_OPT_TERMINAL_H
#define DPC_TOOLS_DPC_OPT_TERMINAL_H

#include "tools/driver/Session.h"

#include <chrono>

namespace dpc {

/// A line on stderr that is rewritten in place. Only where stderr is a terminal
/// that can move its cursor (TERM is set, and not "dumb"); so that it can be
/// read, not more than ten times a second; never wider than the terminal is at
/// the moment. Gone before anything else is printed: when it is cleared, or
/// destroyed.
class ProgressLine : public ProgressView {
public:
  ProgressLine();
  ~ProgressLine() override { clear(); }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  /// False: nothing will ever be shown.
  bool isShown() const { return isTerminal; }
  void show(const std::string &text) override;
  void begin(const std::string &text) override;
  void clear() final;

private:
  void write(const std::string &text);

  bool isTerminal;
  bool isDirty = false;
  std::chrono::steady_clock::time_point last;
};

/// Prints results to stdout, messages and progress to stderr.
class Terminal : public Reporter {
public:
  void error(const std::string &line) override;
  void warning(const std::string &line) override;
  llvm::raw_ostream &output() override { return llvm::outs(); }
  /// The width and the colors that stdout has; 100 columns and no colors where
  /// it is no terminal.
  cost::TextForm form() const override;
  ProgressView *progress() override { return line.isShown() ? &line : nullptr; }

private:
  ProgressLine line;
};

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_TERMINAL_H
