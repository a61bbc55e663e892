//===- Session.cpp - State that a compilation shares ----------------------===//
#include "tools/driver/Session.h"

#include "codegen/Codegen.h"
#include "passes/graph/Passes.h"
#include "passes/local/Passes.h"
#include "passes/lower/Passes.h"
#include "passes/shard/Passes.h"
#include "passes/shrink/Passes.h"
#include "runtime/base/OneLine.h"
#include "tools/driver/Remarks.h"

#include "mlir/Transforms/Passes.h"

#include <filesystem>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

void registerEverything(DialectRegistry &registry) {
  registry.insert<DpcDialect, func::FuncDialect>();
  registerVjpModels(registry);
  codegen::registerLoweringModels(registry);
  codegen::registerCodegenDialects(registry);
  registerGraphPasses();
  registerShardPasses();
  registerLoweringPasses();
  registerLocalPasses();
  registerShrinkPasses();
  registerTransformsPasses();
}

static std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registerEverything(registry);
  auto context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  return context;
}

Session::Session(const CompileOptions &options, Reporter &reporter)
    : asked(options), sink(reporter), mlir(makeContext()),
      remarkLines(options.notes) {
  mlir->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    text = placeOf(diagnostic.getLocation(), text) + text;
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      (void)fail(text);
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      notice(text);
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      remark(text);
    return success();
  });
}

LogicalResult Session::fail(const std::string &message) {
  clearProgress();
  if (!hasFailed()) {
    first = rt::oneLine(message); // names may contain control characters
    sink.error(failureNote.empty() ? first
                                   : first + "; " + rt::oneLine(failureNote));
  }
  return failure();
}

LogicalResult Session::end(LogicalResult result) {
  clearProgress();
  for (const std::string &refusal : refusals)
    sink.error(rt::oneLine(refusal));
  return success(succeeded(result) && refusals.empty());
}

void Session::remark(const std::string &text) {
  // The program may be built twice (few and all layers) with equal remarks.
  if (!llvm::is_contained(remarkLines, text))
    remarkLines.push_back(text);
}

void Session::notice(const std::string &text) {
  auto begin = remarkLines.begin();
  auto found = std::find(begin, remarkLines.end(), text);
  if (found != remarkLines.end() && found - begin < ptrdiff_t(noticeCount))
    return;
  if (found != remarkLines.end())
    remarkLines.erase(found);
  remarkLines.insert(remarkLines.begin() + ptrdiff_t(noticeCount++), text);
}

void Session::begin(const std::string &phase) {
  if (ProgressView *progress = sink.progress())
    progress->begin(phase);
}

void Session::clearProgress() {
  if (ProgressView *progress = sink.progress())
    progress->clear();
}

void Session::dump(StringRef phase, ModuleOp module) {
  if (asked.dumpIrDir.empty())
    return;
  std::error_code code;
  fs::create_directories(asked.dumpIrDir, code);
  std::string number = std::to_string(dumps++);
  std::string name = std::string(2 - std::min<size_t>(2, number.size()), '0') +
                     number + "-" + phase.str() + ".mlir";
  llvm::raw_fd_ostream file((fs::path(asked.dumpIrDir) / name).string(), code);
  if (!code)
    module.print(file);
}

SilencedErrors::SilencedErrors(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (first.empty() &&
            diagnostic.getSeverity() == DiagnosticSeverity::Error)
          first = diagnostic.str();
        return success();
      }) {}

} // namespace dpc
