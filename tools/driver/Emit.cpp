//===- Emit.cpp - Files beside the plan -----------------------------------===//
#include "tools/driver/Emit.h"

#include "frontends/onnx/Annotate.h"
#include "passes/shard/Passes.h"
#include "tools/driver/LoadModel.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

static std::string writeMlir(ModuleOp module, const std::string &path) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  module.print(file);
  file.flush();
  if (!code)
    code = file.error();
  file.clear_error();
  return code ? "'" + path + "' cannot be written: " + code.message() : "";
}

static std::string writeOnnx(const CompileOptions &options, ModuleOp module,
                             const std::string &path,
                             const std::string &strategy,
                             std::vector<std::string> &remarks) {
  auto written = writeAnnotatedOnnx(options.model, path, importOptions(options),
                                    findProgram(module), strategy);
  if (!written)
    return llvm::toString(written.takeError());
  std::string remark = "annotated.onnx: " + std::to_string(written->annotated) +
                       " of " + std::to_string(written->nodes) +
                       " nodes have shardings, the others are known when the "
                       "model is compiled or part of another";
  if (written->partial)
    remark += "; " + std::to_string(written->partial) +
              " outputs are partial sums, which ONNX cannot say (dpc.partial "
              "in the metadata of their nodes)";
  if (!written->externalFiles.empty())
    remark += "; it refers to '" + written->externalFiles.front() +
              "' as the source does: move it there";
  remarks.push_back(remark);
  return "";
}

std::string emitPhase(const CompileOptions &options, StringRef phase,
                      ModuleOp module, const fs::path &dir,
                      const std::string &strategy,
                      std::vector<std::string> &remarks) {
  if (phase == "local" && options.emit.count("mlir"))
    return writeMlir(module, (dir / "program.mlir").string());
  if (phase == "sharded" && options.emit.count("onnx"))
    return writeOnnx(options, module, (dir / "annotated.onnx").string(),
                     strategy, remarks);
  return "";
}

} // namespace dpc
