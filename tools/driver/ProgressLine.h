//===- ProgressLine.h - One line that is written in place -------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PROGRESSLINE_H
#define DPC_TOOLS_DRIVER_PROGRESSLINE_H

#include <chrono>
#include <string>

namespace dpc {

/// A line on stderr that says how far something is. Only where stderr is a
/// terminal that can move its cursor (TERM is set, and not "dumb"); so that it
/// can be read, not more than ten times a second; never wider than the terminal
/// is at the moment. Gone before anything else is printed: when it is cleared,
/// or destroyed.
class ProgressLine {
public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  /// False: nothing will ever be shown.
  bool isShown() const { return isTerminal; }
  void show(const std::string &text);
  /// The same at once: something else begins, which may take long.
  void begin(const std::string &text);
  void clear();

private:
  void write(const std::string &text);

  bool isTerminal;
  bool isDirty = false;
  std::chrono::steady_clock::time_point last;
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PROGRESSLINE_H
