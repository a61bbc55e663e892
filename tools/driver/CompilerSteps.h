//===- CompilerSteps.h - The steps of dpc-opt's pipeline --------*- C++ -*-===//
//
// Private to Compiler.cpp, CompilerChecks.cpp and CompilerExports.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DRIVER_COMPILERSTEPS_H
#define DPC_TOOLS_DRIVER_COMPILERSTEPS_H

#include "cost-model/report/Report.h"
#include "passes/lower/ProgramFamily.h"
#include "runtime/plan/Plan.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/ExpressiblePlan.h"
#include "tools/driver/CompileOptions.h"
#include "tools/driver/ProgressLine.h"
#include "tools/driver/TargetForecast.h"
#include "tools/driver/Verify.h"
#include "codegen/export/Targets.h"

#include <nlohmann/json.hpp>

namespace dpc {

/// The targets of exports that --emit names.
std::vector<const exports::Target *>
namedTargets(const CompileOptions &options);

/// Whether it names any export.
bool exportsAny(const CompileOptions &options);

/// One run of the compiler.
class Compiler {
public:
  explicit Compiler(const CompileOptions &options) : options(options) {}
  int run();

private:
  const CompileOptions &options;
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  /// What was loaded: ready to be sharded, unless there is a family.
  mlir::OwningOpRef<mlir::ModuleOp> program;
  mlir::OwningOpRef<mlir::ModuleOp>
      fused; ///< The program before gradients, or null.
  std::unique_ptr<ProgramFamily>
      family;                   ///< Made of `fused`, where there is one.
  std::optional<rt::Plan> plan; ///< What was written.
  cost::Cluster cluster;
  cost::Cluster used;          ///< What of it the plan uses.
  std::vector<int64_t> places; ///< Of its devices; see PlanBuilder.
  /// The strategy asked for says which groups of nodes are filled first.
  bool isArranged = false;
  cost::ReportContext reportContext;
  rt::InitChoice initialValues; ///< --init
  bool reported = false;        ///< An error was met, and printed unless
  bool isSilent = false;        ///< someone else tells it.
  std::string firstError;
  ProgressLine phase;
  int dumps = 0;
  std::optional<exports::Job> job; ///< Where --emit names an export.
  std::vector<const exports::Target *> legalTargets; ///< That can express it.
  std::vector<std::string> refusals; ///< Why the others of --emit cannot.

  bool fail(const std::string &message);
  void installDiagnostics();
  void addRemark(const std::string &text);
  bool loadCluster();
  bool loadInitialValues();
  bool loadProgram();
  bool runPasses(llvm::StringRef pipeline);
  bool prepareProgram();
  bool makeFamily(bool trains);
  mlir::ModuleOp whole();
  mlir::ModuleOp sample();
  bool hasLoss();
  void listParameters();
  exports::ModelShape modelShape();
  bool checkStatedSizes();
  void dump(llvm::StringRef phase, mlir::ModuleOp module);

  std::optional<cost::SearchResult> search();
  bool writePlan(const cost::SearchResult &result,
                 const std::filesystem::path &dir);
  LoweringSpec degreesOfWinner(const cost::SearchResult &result) const;
  std::function<void(llvm::StringRef, mlir::ModuleOp)>
  observerInto(const cost::SearchResult &result,
               const std::filesystem::path &dir);
  bool writeProgram(const cost::SearchResult &result,
                    const std::filesystem::path &dir);
  bool writeAll(const cost::SearchResult &result, bool plans);
  bool writeEmitted(const cost::SearchResult &result,
                    const std::filesystem::path &dir);
  bool isSmall(const cost::SearchResult &result) const;
  bool verify(const cost::SearchResult &result,
              const std::filesystem::path &dir);
  cost::Verification verifyWhole(const cost::SearchResult &result,
                                 const std::filesystem::path &dir,
                                 std::string &mismatch);
  Verdict runAgainstOneDevice(const LoweringSpec &degrees,
                              const std::filesystem::path &dir);
  void describe(const cost::SearchResult &result);
  void remarkOnPlanOfFp8(const cost::SearchResult &result);
  bool writeTrace(const cost::SearchResult &result,
                  const std::filesystem::path &dir);
  Expected<cost::SearchResult> searchAlone();
  void askWhatIf();
  void askForBetter(const cost::SearchResult &result);
  exports::Job jobOf(const cost::SearchResult &result,
                     const cost::Candidate &candidate);
  Expected<cost::SearchResult>
  searchAs(const CompileOptions &asked, const cost::Cluster &where,
           const ExpressiblePlan::Accepts &accepts);
  std::optional<TargetForecast> forecastFor(const exports::Target &target);
  std::string expressibleFor(const exports::Target &target,
                             const exports::Legality &legality,
                             const cost::SearchResult &result);
  bool printExplanation(const cost::SearchResult &result);
  bool checkExports(const cost::SearchResult &result);
  bool tellRefusals();
  std::string simulateForChakra(const cost::SearchResult &result,
                                exports::Exported &written);
  bool writeExports(const cost::SearchResult &result,
                    const std::filesystem::path &dir);
  void print(const cost::SearchResult &result) const;
  nlohmann::ordered_json reportOf(const cost::SearchResult &result) const;
  bool writeReport(const cost::SearchResult &result,
                   const std::filesystem::path &dir);
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_COMPILERSTEPS_H
