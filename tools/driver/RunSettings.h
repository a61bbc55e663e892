//===- RunSettings.h - What a plan records of its training ------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"
#include "tools/driver/Session.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Returns Plan::settings for `model`, an imported @forward with its loss. For
/// training, imports the model again as --infer does, if that changes it.
mlir::FailureOr<std::vector<rt::Setting>>
settingsOf(Session &session, mlir::ModuleOp model, bool trains);

} // namespace dpc
