//===- SmallModel.h - A small version of a model that runs -----*- C++ -*-===//
#pragma once

#include "tools/driver/BuildPlan.h"
#include "tools/driver/Verify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dpc {

/// Returns weights with which each part of a shrunk model affects the outputs.
/// The small weights that suit wide layers would let the residual connection
/// hide errors in the branches. Scales, biases and variances are positive.
NamedTensors weightsFor(const rt::Plan &plan, uint64_t seed);

/// What a small version of a model computes on one device, without training and
/// without dropout. Masks have the values of the model file. Each failure has
/// one diagnostic.
class SmallModel {
public:
  /// `fused`: a module with the @forward of dpc-fuse. It has a loss.
  SmallModel(mlir::ModuleOp fused, const PlanSettings &settings,
             std::filesystem::path dir);

  /// Whether the model could be shrunk.
  bool isValid() const { return static_cast<bool>(program); }

  /// The program, which is valid, of which compile() makes a copy.
  mlir::func::FuncOp forward() const;

  /// The floating-point operations of one run of the program.
  double flops() const;

  /// Compiles a copy of the program, with the values of @forward that `choose`
  /// returns by name as its results. Returns false if that is not possible.
  bool compile(
      llvm::function_ref<std::map<std::string, mlir::Value>(mlir::func::FuncOp)>
          choose);

  /// The inputs; valid after compile().
  const std::vector<rt::Port> &inputs() const { return plan->inputs; }

  /// Returns the results for each of `inputs`, or nothing if a run fails.
  std::vector<NamedTensors> run(const std::vector<NamedTensors> &inputs);

private:
  PlanSettings settings;
  std::filesystem::path dir;
  mlir::OwningOpRef<mlir::ModuleOp> program;
  std::optional<rt::Plan> plan;
};

} // namespace dpc
