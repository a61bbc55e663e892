//===- CaseProgram.h - From a model to what runs -----------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_CASES_CASEPROGRAM_H
#define DPC_TOOLS_DPC_CASES_CASEPROGRAM_H

#include "frontends/emit/Options.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/io/Npy.h"
#include "tools/dpc-cases/Case.h"
#include "tools/driver/BuildPlan.h"

#include "mlir/IR/MLIRContext.h"

namespace dpc {

struct CaseRunner::State {
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  int64_t ranks;
};

/// FOLDER/NAME.npy, with '_' for '/'.
std::string fileOf(const std::string &folder, std::string name);

/// The inputs of `plan`; numpy has no bf16, which is read from f32.
Expected<std::map<std::string, rt::HostTensor>>
readInputs(const rt::Plan &plan, const std::string &folder);

/// Writes `FOLDER/NAME.npy` each; returns "" or one line.
std::string writeTensors(const std::map<std::string, rt::HostTensor> &tensors,
                         const std::string &folder);

/// Imports a model (.onnx, .pt2 or .mlir) and fuses it; null after a
/// diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadFused(const std::string &model,
                                            mlir::MLIRContext &context,
                                            const ImportOptions &options);

/// A plan with its kernels in `folder`, the batch split over `ranks`. Nullopt
/// after a diagnostic.
std::optional<rt::Plan> buildOnRanks(mlir::ModuleOp program,
                                     const CompileOptions &options,
                                     int64_t ranks, const std::string &folder);

} // namespace dpc

#endif // DPC_TOOLS_DPC_CASES_CASEPROGRAM_H
