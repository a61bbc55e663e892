//===- Main.cpp - dpc-opt -------------------------------------------------===//
//
// Runs one of two tools. The compiler builds a plan from a model and a cluster.
// If the input is .mlir and there is no --cluster, an mlir-opt for the dialect
// runs instead.
//
//===----------------------------------------------------------------------===//
#include "tools/dpc-opt/Main.h"

#include "tools/dpc-opt/Options.h"
#include "tools/driver/Calibration.h"
#include "tools/driver/Compile.h"
#include "tools/driver/OpTable.h"
#include "tools/driver/PlanDiff.h"
#include "tools/driver/Session.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <malloc.h>
#include <new>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace dpc;
using namespace mlir;

static bool canRewrite() {
  const char *kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) && kind && *kind && std::string(kind) != "dumb";
}

/// Queries the width each time, because the user may resize the terminal.
static size_t columns() {
  constexpr size_t kUnknown = 80;
  winsize size{};
  bool isKnown = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
  return isKnown ? size.ws_col : kUnknown;
}

namespace {

/// Shows progress in one line on stderr, which is rewritten at most ten times a
/// second and erased before other output. Does nothing unless stderr is a
/// terminal that can move its cursor (TERM is set, and not "dumb").
class ProgressLine : public ProgressView {
public:
  const bool isShown = canRewrite();

  ProgressLine() = default;
  ~ProgressLine() override { clear(); }
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  void show(const std::string &text) override {
    constexpr auto kPause = std::chrono::milliseconds(100);
    if (!isDirty || std::chrono::steady_clock::now() - last >= kPause)
      begin(text);
  }
  void begin(const std::string &text) override {
    if (!isShown)
      return;
    last = std::chrono::steady_clock::now();
    isDirty = true;
    // Some terminals wrap after a character in the last column.
    llvm::errs() << '\r' << text.substr(0, columns() - 1) << "\x1b[K";
    llvm::errs().flush();
  }
  void clear() final {
    if (!isDirty)
      return;
    llvm::errs() << "\r\x1b[K";
    llvm::errs().flush();
    isDirty = false;
  }

private:
  bool isDirty = false;
  std::chrono::steady_clock::time_point last;
};

class Terminal : public Reporter {
public:
  void error(const std::string &text) override { print("error", text); }
  void warning(const std::string &text) override { print("warning", text); }
  llvm::raw_ostream &output() override { return llvm::outs(); }
  /// If stdout is not a terminal: 100 columns, no colors.
  cost::TextForm form() const override;
  ProgressView *progress() override { return line.isShown ? &line : nullptr; }

private:
  ProgressLine line;

  void print(const char *kind, const std::string &text) {
    line.clear();
    llvm::errs() << "dpc-opt: " << kind << ": " << text << "\n";
  }
};

} // namespace

cost::TextForm Terminal::form() const {
  cost::TextForm form;
  winsize size{};
  if (!isatty(STDOUT_FILENO))
    return form;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
    form.width = size.ws_col;
  const char *refused = std::getenv("NO_COLOR"); // see no-color.org
  const char *term = std::getenv("TERM");
  form.hasColors =
      !(refused && *refused) && term && llvm::StringRef(term) != "dumb";
  return form;
}

static bool isPassTool(int argc, char **argv) {
  bool textual = false;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef word = argv[i];
    if (word.starts_with("--cluster") || word.ends_with(".onnx") ||
        word.ends_with(".pt2") || word == "--help" || word == "-h")
      return false;
    textual |=
        word == "-" || word.ends_with(".mlir") || word.ends_with(".mlirbc") ||
        word.starts_with("--dpc-") || word.starts_with("--pass-pipeline") ||
        word == "--help-passes" || word.starts_with("--show-dialects") ||
        word.starts_with("--verify-diagnostics") ||
        word.starts_with("--split-input-file") ||
        word.starts_with("--verify-roundtrip") || word.starts_with("--mlir-") ||
        word == "--canonicalize" || word == "--cse";
  }
  return textual;
}

/// Whether the words of a pass tool name its input, or ask for a list. mlir-opt
/// would read standard input, and print an empty module if that is empty.
static bool namesInput(int argc, char **argv) {
  return std::any_of(argv + 1, argv + argc, [](llvm::StringRef word) {
    return word == "-" || !word.starts_with("-") || word == "--help-passes" ||
           word.starts_with("--show-dialects");
  });
}

static int runPassTool(int argc, char **argv) {
  if (!namesInput(argc, argv)) {
    llvm::errs() << "dpc-opt: error: the input of the passes is missing: name "
                    "a .mlir file, or - for standard input\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  registerEverything(registry);
  std::vector<char *> words(argv, argv + argc);
  char help[] = "--help";
  for (char *&word : words)
    if (llvm::StringRef(word) == "--help-passes")
      word = help;
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(words.size(), words.data(),
                        "dpc-opt: passes of the dpc dialect\n", registry));
}

static int failOn(const std::exception &exception) {
  std::string text = exception.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  llvm::errs() << "dpc-opt: error: " << text << "\n";
  return 1;
}

/// An exception for lack of memory could not pass through LLVM's frames.
static void endWithoutMemory() {
  constexpr std::string_view line = "dpc-opt: error: out of memory\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

/// A search continually creates and destroys programs.
static void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kTrimBytes = 256 << 20, kMapBytes = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, kTrimBytes);
  mallopt(M_MMAP_THRESHOLD, kMapBytes);
#endif
}

static LogicalResult print(const Expected<std::string> &text,
                           Reporter &reporter) {
  if (text)
    reporter.output() << *text;
  else
    reporter.error(text.message());
  return success(text.ok());
}

static Expected<std::string> calibrateOnly(const CompileOptions &options,
                                           Reporter &reporter) {
  std::string error = calibrate(options, reporter);
  if (!error.empty())
    return Error{error};
  return "wrote " + options.calibrate + "\n";
}

static int runCommand(const CompileOptions &options) {
  Terminal terminal;
  LogicalResult done =
      !options.diff.empty()
          ? print(diffOfPlans(options.diff[0], options.diff[1]), terminal)
      : options.model.empty()
          ? print(calibrateOnly(options, terminal), terminal)
          : compileModel(options, terminal);
  return mlir::asMainReturnCode(done);
}

int dpc::dpcOptMain(int argc, char **argv) try {
  keepFreedMemory();
  std::set_new_handler(endWithoutMemory);
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { endWithoutMemory(); });
  if (argc == 2 && std::string_view(argv[1]) == "--op-table") {
    llvm::outs() << opTable();
    return 0;
  }
  if (isPassTool(argc, argv))
    return runPassTool(argc, argv);
  int exitCode = 0;
  std::optional<CompileOptions> options = parseOptions(argc, argv, exitCode);
  return options ? runCommand(*options) : exitCode;
} catch (const std::exception &exception) {
  return failOn(exception);
}
