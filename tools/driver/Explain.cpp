//===- Explain.cpp - Why a value is placed as it is -----------------------===//
#include "tools/driver/Explain.h"

#include "cost-model/report/Report.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "passes/lower/Lower.h"
#include "passes/price/DescribeStep.h"
#include "passes/shard/Passes.h"
#include "tools/driver/ExplainValues.h"

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

/// The operator whose weight, or kind, `name` is.
static std::optional<Row> findWholeName(const std::string &name,
                                        const std::vector<Row> &rows) {
  for (const Row &row : rows)
    if (row.name == name || isOf(row, name))
      return row;
  return std::nullopt;
}

/// The operator that has `name` as a part of its own; an error where these are
/// several.
static Expected<std::optional<Row>>
findPartOfName(const std::string &name, const std::vector<Row> &rows) {
  std::vector<Row> found;
  std::set<std::string> names;
  for (const Row &row : rows)
    if (StringRef(row.name).contains(name)) {
      found.push_back(row);
      names.insert(row.name);
    }
  if (found.empty())
    return std::optional<Row>();
  // A weight may be read by several.
  if (names.size() == 1)
    return std::optional(found.front());
  return Error{"--explain=" + name + ": several operators have this name" +
               nearNames(name, names)};
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

/// The step of `program` under `degrees`; an error in one line.
static Expected<cost::StepDetail> simulate(mlir::ModuleOp program,
                                           const cost::Cluster &cluster,
                                           const LoweringSpec &degrees) {
  std::string error;
  ScopedDiagnosticHandler handler(program.getContext(), [&](Diagnostic &said) {
    if (error.empty() && said.getSeverity() == DiagnosticSeverity::Error)
      error = said.str();
    return success();
  });
  auto detail = describeStep(program, cluster, degrees);
  if (failed(detail))
    return Error{error.empty() ? "it cannot be compiled" : error};
  return std::move(*detail);
}

/// The step with the weights of `row` held to `dims`.
static Expected<cost::StepDetail> simulateWith(const ExplainedPlan &plan,
                                               const Row &row,
                                               ArrayRef<int64_t> dims) {
  OwningOpRef<ModuleOp> clone(
      cast<ModuleOp>(mlir::ModuleOp(plan.program)->clone()));
  func::FuncOp func = findProgram(*clone);
  Builder builder(func.getContext());
  for (BlockArgument argument : func.getArguments())
    if (isWeightOf(func, argument, row))
      func.setArgAttr(argument.getArgNumber(), attr::kUserSplit,
                      builder.getDenseI64ArrayAttr(dims));
  return simulate(*clone, plan.cluster, plan.degrees);
}

/// How many dimensions the weight of a row has; 0 where it has none.
static int64_t rankOf(const ExplainedPlan &plan, const Row &row) {
  func::FuncOp func = findProgram(mlir::ModuleOp(plan.program));
  for (BlockArgument argument : func.getArguments())
    if (isWeightOf(func, argument, row))
      return cast<RankedTensorType>(argument.getType()).getRank();
  return 0;
}

/// ": 9.1 ms a step (1.2 ms slower), 4 MiB (as much)"; and whether it fits.
static std::string costOf(const ExplainedPlan &plan,
                          const cost::StepDetail &other) {
  std::string time = differenceOf(plan.detail.stepSeconds, other.stepSeconds,
                                  cost::formatSeconds, " slower", " faster");
  std::string memory = differenceOf(peakOf(plan.detail), peakOf(other),
                                    cost::formatBytes, " more", " less");
  return ": " + cost::formatSeconds(other.stepSeconds) + " a step (" +
         (time.empty() ? "as fast" : time) + "), " +
         cost::formatBytes(peakOf(other)) + " (" +
         (memory.empty() ? "as much" : memory) + ")" +
         (peakOf(other) > plan.memoryLimitBytes
              ? ", does not fit: more than " +
                    cost::formatBytes(plan.memoryLimitBytes)
              : "");
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
    return title + ": impossible: " + detail.message() + "\n";
  Row row = planned;
  for (const Row &each : detail->operators)
    if (each.name == planned.name && each.op == planned.op)
      row = each;
  bool isSame = splitOf(row) == splitOf(planned);
  return title + (isSame ? " (as planned)" : "") + costOf(plan, *detail) +
         "\n      " + splitOf(row) + "\n" +
         trafficDifference(plan.detail, *detail);
}

/// What changes where a value of this kind lies, or whether it is kept: keys of
/// --strategy with other values, the others as they are.
static std::vector<std::pair<std::string, LoweringSpec>>
alternativesOf(StringRef role, const LoweringSpec &degrees) {
  std::vector<std::pair<std::string, LoweringSpec>> all;
  auto add = [&](const std::string &title, auto change) {
    all.emplace_back(title, degrees);
    change(all.back().second);
  };
  bool isStored = role == role::kParameter || role == role::kState;
  for (int64_t zero = 0; isStored && zero <= 3; ++zero)
    if (zero != degrees.zero && degrees.dp * degrees.cp > 1)
      add("zero=" + std::to_string(zero), [&](LoweringSpec &other) {
        other.zero = zero;
        if (zero == 0) // it needs one
          other.hybridShard = 1;
      });
  if (role == role::kState && degrees.offload == cost::Offload::None)
    add("offload=optimizer",
        [](LoweringSpec &other) { other.offload = cost::Offload::Optimizer; });
  if (!role.empty())
    return all;
  if (degrees.tp > 1)
    add(degrees.sp ? "sp=false" : "sp=true",
        [](LoweringSpec &other) { other.sp = !other.sp; });
  for (cost::Recompute recompute :
       {cost::Recompute::None, cost::Recompute::Selective,
        cost::Recompute::Full})
    if (degrees.recompute != recompute)
      add("recompute=" + cost::printValue(recompute),
          [&](LoweringSpec &other) { other.recompute = recompute; });
  return all;
}

static std::string describeKeys(StringRef role, const ExplainedPlan &plan) {
  std::string text;
  for (const auto &[title, degrees] : alternativesOf(role, plan.degrees)) {
    auto detail = simulate(plan.program, plan.cluster, degrees);
    text += "    " + title +
            (detail ? costOf(plan, *detail) + "\n" +
                          trafficDifference(plan.detail, *detail)
                    : ": impossible: " + detail.message() + "\n");
  }
  return text.empty() ? text : "  with another value of a key:\n" + text;
}

/// "a matmul", "an embedding"
static std::string withArticle(const std::string &noun) {
  bool isVowel = !noun.empty() && StringRef("aeiou").contains(noun[0]);
  return (isVowel ? "an " : "a ") + noun;
}

static std::string explainRow(const Row &row, const ExplainedPlan &plan) {
  std::string text =
      row.name + ": weight of " + withArticle(row.op) + ", " + row.shape +
      (row.count > 1 ? ", " + std::to_string(row.count) + " alike" : "") +
      "\n  planned: " + splitOf(row) + "\n    " +
      cost::formatSeconds(plan.detail.stepSeconds) + " a step, " +
      cost::formatBytes(peakOf(plan.detail)) + " on the fullest rank\n";
  int64_t rank = rankOf(plan, row);
  if (rank == 0)
    return text + "  it has no weight: its operands say how it is split\n" +
           describeKeys("", plan);
  if (plan.degrees.tp == 1) {
    text += "  no tensor axis could split it: the strategy has tp=1; how "
            "it is stored follows from zero, hybrid_shard and ep\n";
  } else {
    text += "  held to another split, all else chosen anew:\n";
    text += describeAlternative(plan, row, {});
    for (int64_t dim = 0; dim < rank; ++dim)
      text += describeAlternative(plan, row, {dim});
  }
  return text + describeKeys(role::kParameter, plan);
}

/// Why a value of this kind lies as it does.
static std::string reasonOf(StringRef role) {
  if (role == role::kInput)
    return "an input is split as the batch is, over the data ranks, and along "
           "the sequence over cp: other degrees are other strategies";
  if (role == role::kState)
    return "an optimizer state lies as the part of its parameter that a rank "
           "updates: as the parameter, with zero=1 to 3 also over the ranks "
           "that zero splits over";
  if (role == role::kParameter)
    return "a small parameter is split as the operators that read it are; "
           "with zero=3 also over the ranks that zero splits over";
  if (role == role::kBuffer)
    return "a buffer is not trained: it lies as the operators that read it "
           "need it, and zero does not split it";
  if (role == role::kScalar)
    return "a number of the step, on every rank";
  return "an operator follows from its operands, and from what the operators "
         "around it cost; what it keeps for backward from recompute";
}

static std::string explainValue(const NamedValue &value,
                                const ExplainedPlan &plan) {
  std::string what = value.role == role::kState    ? "an optimizer state"
                     : value.role == role::kScalar ? "a scalar"
                     : value.role.empty()          ? "an operator"
                     : value.role == role::kInput  ? "an input"
                                                   : "a " + value.role;
  std::string text =
      value.name + ": " + what +
      (value.members.size() > 1
           ? ", " + std::to_string(value.members.size()) + " alike"
           : "") +
      "\n";
  for (const auto &[line, count] : value.lines)
    text += "  planned: " + line +
            (count > 1 ? " (" + std::to_string(count) + " times)" : "") + "\n";
  text += "    " + cost::formatSeconds(plan.detail.stepSeconds) + " a step, " +
          cost::formatBytes(peakOf(plan.detail)) + " on the fullest rank\n  " +
          reasonOf(value.role) + "\n";
  return text + describeKeys(value.role, plan);
}

/// What is named in the plan's sharded program.
static std::vector<NamedValue> valuesOf(const ExplainedPlan &plan) {
  std::vector<NamedValue> values;
  (void)lowerForStrategy(
      plan.program, plan.cluster, plan.degrees,
      [&](StringRef phase, ModuleOp lowered) {
        if (phase == "sharded")
          values = namedValues(findProgram(lowered));
      },
      /*layouts=*/nullptr, /*verifies=*/false);
  return values;
}

/// Of a value whose name has `part` in it, where that is one only.
static Expected<std::string> explainPart(const std::string &part,
                                         const std::vector<NamedValue> &values,
                                         const ExplainedPlan &plan) {
  std::set<std::string> all, found;
  const NamedValue *last = nullptr;
  for (const Row &row : plan.detail.operators)
    all.insert(row.name);
  for (const NamedValue &value : values) {
    all.insert(value.name);
    if (!value.contains(part))
      continue;
    found.insert(value.name);
    last = &value;
  }
  if (found.size() == 1)
    return explainValue(*last, plan);
  return Error{"--explain=" + part +
               (found.empty()
                    ? ": no parameter, state, input or operator has this name"
                    : ": several have this name") +
               nearNames(part, found.empty() ? all : found)};
}

Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan) {
  std::vector<NamedValue> values = valuesOf(plan);
  // A name in full before parts of names, operators with a weight before
  // others.
  auto called = llvm::find_if(
      values, [&](const NamedValue &value) { return value.isCalled(name); });
  bool isCalled = called != values.end();
  if (isCalled && called->role != role::kParameter)
    return explainValue(*called, plan);
  if (std::optional<Row> row = findWholeName(name, plan.detail.operators))
    return explainRow(*row, plan);
  if (isCalled)
    return explainValue(*called, plan);
  auto row = findPartOfName(name, plan.detail.operators);
  if (row && *row)
    return explainRow(**row, plan);
  return row ? explainPart(name, values, plan) : Error{row.message()};
}

} // namespace dpc
