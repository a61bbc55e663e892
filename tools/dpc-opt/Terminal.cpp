//===- Terminal.cpp - What a compilation shows on a terminal --------------===//
#include "tools/dpc-opt/Terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace dpc {

static bool canRewrite() {
  const char *kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) && kind && *kind && std::string(kind) != "dumb";
}

ProgressLine::ProgressLine() : isTerminal(canRewrite()) {}

/// Columns of the terminal now: it may have been resized.
static size_t columns() {
  constexpr size_t kUnknown = 80;
  winsize size{};
  bool isKnown = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
  return isKnown ? size.ws_col : kUnknown;
}

void ProgressLine::show(const std::string &text) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  auto now = std::chrono::steady_clock::now();
  if (isTerminal && !(isDirty && now - last < kPause))
    write(text);
}

void ProgressLine::begin(const std::string &text) {
  if (isTerminal)
    write(text);
}

void ProgressLine::write(const std::string &text) {
  last = std::chrono::steady_clock::now();
  isDirty = true;
  // The last column stays free: some terminals wrap when it is written.
  llvm::errs() << '\r' << text.substr(0, columns() - 1) << "\x1b[K";
  llvm::errs().flush();
}

void ProgressLine::clear() {
  if (!isDirty)
    return;
  llvm::errs() << "\r\x1b[K";
  llvm::errs().flush();
  isDirty = false;
}

void Terminal::error(const std::string &text) {
  line.clear();
  llvm::errs() << "dpc-opt: error: " << text << "\n";
}

void Terminal::warning(const std::string &text) {
  line.clear();
  llvm::errs() << "dpc-opt: warning: " << text << "\n";
}

cost::TextForm Terminal::form() const {
  cost::TextForm form;
  winsize size{};
  if (!isatty(STDOUT_FILENO))
    return form;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
    form.width = size.ws_col;
  const char *refused = std::getenv("NO_COLOR"); // no-color.org: not empty
  const char *term = std::getenv("TERM");
  form.hasColors =
      !(refused && *refused) && term && llvm::StringRef(term) != "dumb";
  return form;
}

} // namespace dpc
