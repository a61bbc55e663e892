//===- Compile.h - From a model to a plan, in stages ------------*- C++ -*-===//
//
//   load -> prepare -> search -> build -> verify -> write
//
// Each function takes the result of the previous stage, adds to it, and returns
// the result of its stage. Before a function fails, it reports the error to the
// session.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/report/Report.h"
#include "cost-model/search/IdleDevices.h"
#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"
#include "tools/driver/ModelProgram.h"
#include "tools/driver/OutputFolder.h"
#include "tools/driver/PlanTarget.h"
#include "tools/driver/Session.h"

#include "mlir/IR/OwningOpRef.h"

#include <nlohmann/json_fwd.hpp>

namespace dpc {

struct Machine {
  cost::Cluster cluster;
  /// The place in cluster.json of each device; empty if the order is the same.
  std::vector<int64_t> places;
  /// Whether --strategy fixes the order of the groups of nodes.
  bool isArranged = false;
  std::vector<cost::Cluster> others; ///< The further clusters of --cluster.
};

struct Loaded {
  Machine machine;              ///< empty if only the program is printed
  rt::InitChoice initialValues; ///< --init
  /// The files of weights, as they were when the model was read; empty if no
  /// plan is written.
  std::vector<rt::SourceFile> sourceFiles;
  mlir::OwningOpRef<mlir::ModuleOp> model;
};

struct Prepared {
  Machine machine;
  rt::InitChoice initialValues;
  std::vector<rt::SourceFile> sourceFiles;
  ModelProgram program;
  /// The plan's lossOutput.
  std::string loss;
  std::vector<rt::Setting> settings; ///< of the plan
  std::vector<std::string> trained, frozen;
  /// The strategies that the target of --for can express; empty: all.
  Accepts accepts;
};

/// The first candidate is the winner, unless no strategy can be executed.
struct Searched : Prepared {
  cost::SearchResult result;
  cost::Cluster used;

  /// Returns whether a strategy can be executed, even if it needs too much
  /// memory.
  bool isExecutable() const;
  const cost::Candidate &winner() const { return result.candidates.front(); }
  /// Returns the spec with which the winner was evaluated.
  LoweringSpec spec(const CompileOptions &options) const;
  /// Returns spec() in the form that the cost model evaluates.
  LoweringSpec priced(const CompileOptions &options) const;
};

/// The files of --emit are in a temporary folder, which `write` moves into
/// place.
struct Built : Searched {
  std::unique_ptr<OutputFolder> folder;
  /// By input; empty if they were not measured.
  std::map<std::string, rt::Dependence> dependences;
  std::optional<rt::Plan> plan;
};

struct Verified : Built {
  cost::Verification verification;
};

/// The output folder is in place and contains the report.
struct Written : Verified {
  /// Contents of the report besides the search result.
  cost::ReportContext context;
};

/// Returns the text of report.json: one value per line, and the simulated step
/// in one line.
std::string reportText(const nlohmann::ordered_json &report);

mlir::FailureOr<Loaded> load(Session &session);
/// Adds losses, gradients and the optimizer.
mlir::FailureOr<Prepared> prepare(Session &session, Loaded loaded);
/// Fails if the output folder cannot be replaced, or if --emit names a plan but
/// no strategy fits.
mlir::FailureOr<Searched> search(Session &session, Prepared prepared);
/// Refuses exports that cannot express a strategy that the user fixed.
mlir::FailureOr<Built> build(Session &session, Searched searched);
/// Fails if the ranks and one device compute different results.
mlir::FailureOr<Verified> verify(Session &session, Built built);
mlir::FailureOr<Written> write(Session &session, Verified verified);

/// Returns the program with all layers, or fails after reporting an error.
mlir::FailureOr<mlir::ModuleOp> wholeProgram(Session &session,
                                             const Prepared &prepared);

/// Searches again, with other options or another cluster, among the strategies
/// that `accepts` allows (if it is empty, Prepared::accepts).
Expected<cost::PartResult>
searchPartAgain(Session &session, const Prepared &prepared,
                const CompileOptions &options, const cost::Cluster &cluster,
                Accepts accepts = nullptr, bool baselines = true);

/// Returns only the search of searchPartAgain.
Expected<cost::SearchResult>
searchAgain(Session &session, const Prepared &prepared,
            const CompileOptions &options, const cost::Cluster &cluster,
            Accepts accepts = nullptr, bool baselines = true);

/// Returns an empty detail on failure.
cost::StepDetail describePlan(Session &session, const Searched &searched);

/// Searches all strategies that use as many devices as the winner. Returns the
/// plan that is found if it is better.
std::optional<cost::BetterPlan> searchFreely(Session &session,
                                             const Searched &searched);

/// Repeats the search for --what-if, on each changed cluster and with sequences
/// of twice the length. If a search finds no plan, its result says why.
std::vector<cost::WhatIf> searchChanges(Session &session,
                                        const Searched &searched);

/// Says which other plan is faster than the winner if tokens choose experts
/// unevenly, if there is one among the candidates.
void remarkOnSkew(Session &session, const Searched &searched);

/// Runs all stages for `options.model`, and prints the output of --report,
/// --explain and --emit=mlir.
mlir::LogicalResult compileModel(CompileOptions options, Reporter &reporter);

} // namespace dpc
