//===- Main.cpp - dpc-opt -------------------------------------------------===//
//
// Two tools in one binary: the compiler (a model and a cluster in, a plan out),
// and an mlir-opt for the dialect when it is given .mlir without --cluster.
//
//===----------------------------------------------------------------------===//
#include "tools/dpc-opt/Main.h"

#include "tools/dpc-opt/Options.h"
#include "tools/dpc-opt/Terminal.h"
#include "tools/driver/Calibration.h"
#include "tools/driver/Compile.h"
#include "tools/driver/OpTable.h"
#include "tools/driver/PlanDiff.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <exception>
#include <malloc.h>
#include <new>
#include <string_view>
#include <unistd.h>

using namespace dpc;
using namespace mlir;

/// Whether the words ask for the mlir-opt side.
static bool isPassTool(int argc, char **argv) {
  bool textual = argc == 1 && !isatty(STDIN_FILENO);
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

static int runPassTool(int argc, char **argv) {
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

/// The last resort for what nobody foresaw: one line all the same.
static int failOn(const std::exception &exception) {
  std::string text = exception.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  llvm::errs() << "dpc-opt: error: " << text << "\n";
  return 1;
}

/// Not by an exception: LLVM's frames end the process when one passes them.
static void endWithoutMemory() {
  constexpr std::string_view line = "dpc-opt: error: out of memory\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

/// Search makes and drops programs all the time: memory that is free again is
/// kept rather than given back.
static void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kTrimBytes = 256 << 20, kMapBytes = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, kTrimBytes);
  mallopt(M_MMAP_THRESHOLD, kMapBytes);
#endif
}

/// --diff
static LogicalResult printDiff(const CompileOptions &options,
                               Reporter &reporter) {
  auto text = diffOfPlans(options.diff[0], options.diff[1]);
  if (!text) {
    reporter.error(text.message());
    return failure();
  }
  reporter.output() << *text;
  return success();
}

/// --calibrate without a model.
static LogicalResult calibrateOnly(const CompileOptions &options,
                                   Reporter &reporter) {
  std::string error = calibrate(options, reporter);
  if (!error.empty()) {
    reporter.error(error);
    return failure();
  }
  reporter.output() << "wrote " << options.calibrate << "\n";
  return success();
}

static int runCommand(const CompileOptions &options) {
  Terminal terminal;
  LogicalResult done = !options.diff.empty() ? printDiff(options, terminal)
                       : options.model.empty()
                           ? calibrateOnly(options, terminal)
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
