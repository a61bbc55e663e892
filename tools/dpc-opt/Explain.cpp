//===- Explain.cpp - Why a weight is split as it is -----------------------===//
#include "tools/dpc-opt/Explain.h"

#include "cost-model/Report.h"
#include "ir/Dialect.h"
#include "ir/UserShardings.h"
#include "passes/search/DescribeStep.h"
#include "passes/shard/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/GlobPattern.h"

#include <numeric>

using namespace mlir;

namespace dpc {

using Row = cost::OperatorSharding;

/// A row's name has a star where layers differ by a number.
static bool isOf(const Row &row, StringRef name) {
  auto pattern = llvm::GlobPattern::create(row.name);
  if (!pattern) {
    llvm::consumeError(pattern.takeError());
    return row.name == name;
  }
  return pattern->match(name);
}

static cost::Result<Row> findRow(const std::string &name,
                                 const std::vector<Row> &rows) {
  std::vector<Row> found;
  for (const Row &row : rows)
    if (row.name == name || isOf(row, name))
      return row;
  for (const Row &row : rows)
    if (StringRef(row.name).contains(name))
      found.push_back(row);
  // A weight may be read by several.
  if (!found.empty() && llvm::all_of(found, [&](const Row &row) {
        return row.name == found.front().name;
      }))
    return found.front();
  std::string known;
  for (const Row &row : found.empty() ? rows : found)
    if (known.size() < 300)
      known += (known.empty() ? "" : ", ") + row.name;
  return cost::Error{"--explain=" + name +
                     (found.empty() ? ": no operator has this weight"
                                    : ": several operators have this name") +
                     "; expected one of " + known};
}

static double peakOf(const cost::StepDetail &detail) {
  double peak = 0;
  for (const cost::MemoryMoment &moment : detail.memory)
    peak = std::max(peak, moment.bytes.total());
  return peak;
}

/// Bytes that a rank of the stage that sends the most sends of each kind.
static std::map<std::string, double> sentOf(const cost::StepDetail &detail) {
  std::map<std::pair<std::string, int64_t>, double> byStage;
  for (const cost::DetailTraffic &row : detail.traffic)
    byStage[{detail.labels[row.label], row.stage}] += std::accumulate(
        row.bytesPerLevel.begin(), row.bytesPerLevel.end(), 0.0);
  std::map<std::string, double> most;
  for (const auto &[key, bytes] : byStage)
    most[key.first] = std::max(most[key.first], bytes);
  return most;
}

/// "12.0 KiB more", "as much".
template <typename Format>
static std::string differenceOf(double before, double after, Format format,
                                const char *more, const char *less) {
  if (std::abs(after - before) <= 1e-9 * std::abs(before))
    return "";
  return format(std::abs(after - before)) + (after > before ? more : less);
}

static std::string trafficDifference(const cost::StepDetail &before,
                                     const cost::StepDetail &after) {
  std::map<std::string, double> was = sentOf(before), is = sentOf(after), all;
  all.insert(was.begin(), was.end());
  all.insert(is.begin(), is.end());
  std::string text;
  for (const auto &[what, bytes] : all) {
    std::string change =
        differenceOf(was[what], is[what], cost::formatBytes, " more", " less");
    if (!change.empty())
      text += (text.empty() ? "" : ", ") + change + " of " + what;
  }
  return text.empty() ? "" : "      a rank sends " + text + "\n";
}

/// Row by row: a weight held to something makes its layers unlike.
static std::string splitOf(const Row &row) {
  return row.kind + ": stored " + row.stored + ", used " + row.used +
         ", result " + row.result;
}

/// Whether an argument is one of the weights of `row`.
static bool isWeightOf(func::FuncOp func, BlockArgument argument,
                       const Row &row) {
  unsigned place = argument.getArgNumber();
  auto name = func.getArgAttrOfType<StringAttr>(place, attr::kName);
  auto role = func.getArgAttrOfType<StringAttr>(place, attr::kRole);
  return name && role && role.getValue() == role::kParameter &&
         isOf(row, name.getValue());
}

/// The step with the weights of `row` held to `dims`; an error in one line.
static cost::Result<cost::StepDetail> simulateWith(const ExplainedPlan &plan,
                                                   const Row &row,
                                                   ArrayRef<int64_t> dims) {
  OwningOpRef<ModuleOp> clone(
      cast<ModuleOp>(mlir::ModuleOp(plan.program)->clone()));
  func::FuncOp func = findProgram(*clone);
  Builder builder(func.getContext());
  for (BlockArgument argument : func.getArguments())
    if (isWeightOf(func, argument, row))
      func.setArgAttr(argument.getArgNumber(), kUserSplitAttr,
                      builder.getDenseI64ArrayAttr(dims));
  std::string error;
  ScopedDiagnosticHandler handler(func.getContext(), [&](Diagnostic &said) {
    if (error.empty() && said.getSeverity() == DiagnosticSeverity::Error)
      error = said.str();
    return success();
  });
  auto detail = describeStep(*clone, plan.cluster, plan.degrees);
  if (failed(detail))
    return cost::Error{error.empty() ? "it cannot be compiled" : error};
  return std::move(*detail);
}

/// How many dimensions the weight of a row has; 0 where it has none.
static int64_t rankOf(const ExplainedPlan &plan, const Row &row) {
  func::FuncOp func = findProgram(mlir::ModuleOp(plan.program));
  for (BlockArgument argument : func.getArguments())
    if (isWeightOf(func, argument, row))
      return cast<RankedTensorType>(argument.getType()).getRank();
  return 0;
}

static std::string describeAlternative(const ExplainedPlan &plan,
                                       const Row &planned,
                                       ArrayRef<int64_t> dims) {
  std::string title = dims.empty()
                          ? "    not split by tensor axes"
                          : "    dimension " + std::to_string(dims[0]) +
                                " split by tensor axes";
  auto detail = simulateWith(plan, planned, dims);
  if (!detail)
    return title + ": impossible: " + detail.error() + "\n";
  Row row = planned;
  for (const Row &each : detail->operators)
    if (each.name == planned.name && each.op == planned.op)
      row = each;
  std::string time = differenceOf(plan.detail.stepSeconds, detail->stepSeconds,
                                  cost::formatSeconds, " slower", " faster");
  std::string memory = differenceOf(peakOf(plan.detail), peakOf(*detail),
                                    cost::formatBytes, " more", " less");
  bool isSame = splitOf(row) == splitOf(planned);
  return title + (isSame ? " (as planned)" : "") + ": " +
         cost::formatSeconds(detail->stepSeconds) + " a step (" +
         (time.empty() ? "as fast" : time) + "), " +
         cost::formatBytes(peakOf(*detail)) + " (" +
         (memory.empty() ? "as much" : memory) + ")\n      " + splitOf(row) +
         "\n" + trafficDifference(plan.detail, *detail);
}

cost::Result<std::string> explain(const std::string &name,
                                  const ExplainedPlan &plan) {
  auto row = findRow(name, plan.detail.operators);
  if (!row)
    return cost::Error{row.error()};
  std::string text =
      row->name + ": weight of a " + row->op + ", " + row->shape +
      (row->count > 1 ? ", " + std::to_string(row->count) + " alike" : "") +
      "\n  planned: " + splitOf(*row) + "\n    " +
      cost::formatSeconds(plan.detail.stepSeconds) + " a step, " +
      cost::formatBytes(peakOf(plan.detail)) + " on the fullest rank\n";
  int64_t rank = rankOf(plan, *row);
  if (rank == 0)
    return text + "  it has no weight: its operands say how it is split\n";
  if (plan.degrees.tp == 1)
    return text + "  no tensor axis could split it: the strategy has tp=1; how "
                  "it is stored follows from zero, hybrid_shard and ep\n";
  text += "  held to another split, all else chosen anew:\n";
  text += describeAlternative(plan, *row, {});
  for (int64_t dim = 0; dim < rank; ++dim)
    text += describeAlternative(plan, *row, {dim});
  return text;
}

} // namespace dpc
