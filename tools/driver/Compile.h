//===- Compile.h - From a model to a plan, in stages ------------*- C++ -*-===//
//
//   load -> prepare -> search -> build -> verify -> write
//
// Each stage is a value that its function makes of the value before; it holds
// all that is known by then. A function that fails has told the session why.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DRIVER_COMPILE_H
#define DPC_TOOLS_DRIVER_COMPILE_H

#include "cost-model/report/Report.h"
#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"
#include "tools/driver/ModelProgram.h"
#include "tools/driver/OutputFolder.h"
#include "tools/driver/Session.h"

#include "mlir/IR/OwningOpRef.h"

namespace dpc {

/// The devices that are compiled for.
struct Machine {
  cost::Cluster cluster;
  /// By device, its place in the order of cluster.json; empty: as it is.
  std::vector<int64_t> places;
  /// --strategy says which groups of nodes are filled first.
  bool isArranged = false;
};

/// What the command line names was read.
struct Loaded {
  Machine machine;              ///< Empty where only the program is asked for.
  rt::InitChoice initialValues; ///< --init
  mlir::OwningOpRef<mlir::ModuleOp> model;
};

/// The model is ready to be sharded.
struct Prepared {
  Machine machine;
  rt::InitChoice initialValues;
  ModelProgram program;
  std::vector<std::string> trained, frozen; ///< Names of parameters.
};

/// Strategies were compared. The winner is first among the candidates, where
/// any strategy can be executed.
struct Searched : Prepared {
  cost::SearchResult result;
  cost::Cluster used; ///< The part of the cluster that the winner uses.

  /// Whether there is a strategy that could be executed, though it may not fit.
  bool isExecutable() const;
  const cost::Candidate &winner() const { return result.candidates.front(); }
  /// Returns the winner's degrees, as it was evaluated.
  LoweringSpec degrees(const CompileOptions &options) const;
  /// Returns the same degrees as the cost model prices them.
  LoweringSpec priced(const CompileOptions &options) const;
};

/// The plan and what --emit names beside it lie in a folder that is not yet in
/// place.
struct Built : Searched {
  std::unique_ptr<OutputFolder> folder;
  std::optional<rt::Plan> plan; ///< None where --emit does not name it.
};

/// The plan was run against one device, or it is known why not.
struct Verified : Built {
  cost::Verification verification;
};

/// The folder is in place, with its report.
struct Written : Verified {
  cost::ReportContext context; ///< What the report says beside the result.
};

mlir::FailureOr<Loaded> load(Session &session);
/// Adds losses, gradients and the optimizer.
mlir::FailureOr<Prepared> prepare(Session &session, Loaded loaded);
/// Fails before it searches where the output folder cannot be replaced; fails
/// after it where a plan is asked for and no strategy fits.
mlir::FailureOr<Searched> search(Session &session, Prepared prepared);
/// Refuses exports that cannot express the winner; fails where none can.
mlir::FailureOr<Built> build(Session &session, Searched searched);
/// Fails where the ranks compute something else than one device.
mlir::FailureOr<Verified> verify(Session &session, Built built);
mlir::FailureOr<Written> write(Session &session, Verified verified);

/// Simulates a step of the winner. Empty where that cannot be done.
cost::StepDetail describePlan(Session &session, const Searched &searched);

/// Compiles `options.model`: all stages, and what --report, --explain and
/// --emit=mlir print. Errors are one line each.
mlir::LogicalResult compileModel(CompileOptions options, Reporter &reporter);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_COMPILE_H
