//===- CaseProgram.h - Steps of a case --------------------*- C++ -*-===//
#pragma once

#include "runtime/exec/RunPlan.h"
#include "runtime/io/Npy.h"
#include "tools/dpc-cases/Case.h"
#include "tools/driver/BuildPlan.h"

#include "mlir/IR/MLIRContext.h"

namespace dpc {

/// Returns FOLDER/NAME.npy, with '_' for each '/' in the name.
std::string fileOf(const std::string &folder, std::string name);

Expected<rt::HostTensor> readTensor(const std::string &path, rt::DType type);

/// Reads the inputs of `plan`. Inputs in bf16 are stored as f32.
Expected<std::map<std::string, rt::HostTensor>>
readInputs(const rt::Plan &plan, const std::string &folder);

/// Writes FOLDER/NAME.npy for each tensor. Returns "" or a one-line error.
std::string writeTensors(const std::map<std::string, rt::HostTensor> &tensors,
                         const std::string &folder);

/// Imports `options.model` and fuses it. Returns null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadFused(const CompileOptions &options,
                                            mlir::MLIRContext &context);

/// Builds a plan for `ranks` ranks that share the batch, with its kernels in
/// `folder`. Returns nullopt after a diagnostic.
std::optional<rt::Plan> buildOnRanks(mlir::ModuleOp program,
                                     const CompileOptions &options,
                                     int64_t ranks, const std::string &folder);

} // namespace dpc
