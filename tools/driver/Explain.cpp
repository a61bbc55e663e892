//===- Explain.cpp - How a value is sharded, and alternatives--------------===//
#include "tools/driver/Explain.h"

#include "cost-model/report/Report.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/Sharding.h"
#include "passes/lower/Lower.h"
#include "passes/price/DescribeStep.h"
#include "passes/shard/Passes.h"
#include "tools/driver/Session.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <numeric>

using namespace mlir;

namespace dpc {

using Row = cost::OperatorSharding;

namespace {

/// An argument of a sharded step function, or the ops of one operator of the
/// model. Equal layers share one value.
struct NamedValue {
  std::string name;              ///< "*" replaces the number of a layer.
  std::set<std::string> members; ///< The full names.
  std::string role;              ///< The role of an argument, or "".
  /// Descriptions of shardings, each with the number of its members.
  std::vector<std::pair<std::string, int64_t>> lines;

  /// Returns whether `asked` is the name of the value or of a member. The first
  /// result of an operator counts as the operator.
  bool isCalled(StringRef asked) const {
    if (asked == name || members.count(asked.str()))
      return true;
    asked.consume_back("_output_0") || asked.consume_back(":0");
    return role.empty() && members.count(asked.str());
  }
  bool contains(StringRef part) const {
    return StringRef(name).contains(part) ||
           llvm::any_of(members, [&](const std::string &member) {
             return StringRef(member).contains(part);
           });
  }
};

} // namespace

/// "8 x 32 x 64 f32 sharded as [dp, -, -]: 32.0 KiB of 64.0 KiB on a rank"
static std::string shardedAs(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return "no tensor";
  auto bytes = [](RankedTensorType of) {
    return static_cast<double>(of.getNumElements()) *
           of.getElementTypeBitWidth() / 8;
  };
  std::string text, element;
  for (int64_t size : type.getShape())
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  llvm::raw_string_ostream(element) << type.getElementType();
  std::string sharding = shardingText(value);
  text = (text.empty() ? "one " : text + " ") + element;
  if (sharding.empty())
    return text + ", whole on each rank";
  return text + " sharded as " + sharding + ": " +
         cost::formatBytes(bytes(localType(type))) + " of " +
         cost::formatBytes(bytes(type)) + " on a rank";
}

static std::string readersOf(Value value) {
  std::set<std::string> kinds;
  for (Operation *user : value.getUsers())
    if (!user->hasTrait<mlir::OpTrait::IsTerminator>())
      kinds.insert(user->getName().stripDialect().str());
  return kinds.empty() ? "" : "; read by " + llvm::join(kinds, ", ");
}

static std::string movesOf(Value value) {
  std::string text;
  for (Operation *user : value.getUsers())
    if (isa<ReshardOp>(user)) {
      std::string next = shardingText(user->getResult(0));
      if (!StringRef(text).contains(next))
        text += "; then resharded to " + next;
    }
  return text;
}

static std::string lineOf(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (isa<RankedTensorType>(operand.getType()))
      text += (i == 0 ? " of " : " and ") + shardingText(operand);
  for (Value result : op->getResults())
    text += ", result " + shardedAs(result) + movesOf(result);
  if (std::optional<int64_t> stage = stageOf(op))
    text += "; stage " + std::to_string(*stage);
  return text;
}

namespace {

class Collector {
public:
  void add(StringRef name, StringRef role, const std::string &line) {
    std::string pattern = patternOf(name);
    auto [it, isNew] = places.try_emplace({pattern, role.str()}, values.size());
    if (isNew)
      values.push_back({pattern, {}, role.str(), {}});
    NamedValue &value = values[it->second];
    value.members.insert(name.str());
    auto same = llvm::find_if(
        value.lines, [&](const auto &other) { return other.first == line; });
    if (same == value.lines.end())
      value.lines.emplace_back(line, 1);
    else
      ++same->second;
  }
  std::vector<NamedValue> values;

private:
  std::map<std::pair<std::string, std::string>, size_t> places;
};

} // namespace

static std::vector<NamedValue> namedValues(func::FuncOp sharded) {
  Collector collector;
  for (BlockArgument argument : sharded.getArguments()) {
    unsigned place = argument.getArgNumber();
    auto name = sharded.getArgAttrOfType<StringAttr>(place, attr::kName);
    auto role = sharded.getArgAttrOfType<StringAttr>(place, attr::kRole);
    if (name && role)
      collector.add(name, role, shardedAs(argument) + readersOf(argument));
  }
  for (Operation &op : sharded.getBody().front().without_terminator())
    if (auto loc = dyn_cast<NameLoc>(op.getLoc());
        loc && phaseOf(&op) == Phase::forward && !isa<ReshardOp>(op))
      collector.add(loc.getName(), "", lineOf(&op));
  return std::move(collector.values);
}

/// Returns the edit distance from `asked` to `name`, or to the most similar of
/// its parts that begin after a dot or slash and end at one or at the end.
static unsigned distance(StringRef asked, StringRef name) {
  unsigned least = asked.edit_distance_insensitive(name);
  for (size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && name[i - 1] != '.' && name[i - 1] != '/')
      continue;
    StringRef rest = name.drop_front(i);
    for (size_t end = rest.find_first_of("./"); end != StringRef::npos;
         end = rest.find_first_of("./", end + 1))
      least = std::min(least,
                       asked.edit_distance_insensitive(rest.take_front(end)));
    least = std::min(least, asked.edit_distance_insensitive(rest));
  }
  return least;
}

/// Prints up to five names after `title`, or "" if there are none.
static std::string listOf(const char *title, ArrayRef<std::string> names) {
  constexpr size_t kMost = 5;
  return names.empty() ? "" : title + llvm::join(names.take_front(kMost), ", ");
}

/// Prints "; near: a, b, c": names that contain `asked`, or a part of which is
/// similar to it, or "".
static std::string nearNames(StringRef asked,
                             const std::set<std::string> &names) {
  std::vector<std::pair<unsigned, std::string>> similar;
  for (const std::string &name : names) {
    bool contains = StringRef(name).contains_insensitive(asked);
    unsigned letters = contains ? 0 : distance(asked, name);
    if (letters <= asked.size() / 3)
      similar.emplace_back(letters, name);
  }
  llvm::sort(similar);
  auto sorted = llvm::make_second_range(similar);
  return listOf("; near: ",
                std::vector<std::string>(sorted.begin(), sorted.end()));
}

/// In names of rows, "*" replaces the number of a layer.
static bool isOf(const Row &row, StringRef name) {
  auto pattern = llvm::GlobPattern::create(row.name);
  if (!pattern) {
    llvm::consumeError(pattern.takeError());
    return row.name == name;
  }
  return pattern->match(name);
}

static std::optional<Row> findWholeName(const std::string &name,
                                        const std::vector<Row> &rows) {
  for (const Row &row : rows)
    if (row.name == name || isOf(row, name))
      return row;
  return std::nullopt;
}

/// Fails if the names of several operators contain `name`.
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
  // Rows with one name are operators that share a weight.
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

/// Returns bytes per kind of message on the stage whose ranks send the most.
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

/// Prints "12.0 KiB more", or "" if the values are equal.
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

static std::string splitOf(const Row &row) {
  return row.kind + ": stored " + row.stored + ", used " + row.used +
         ", result " + row.result;
}

static bool isWeightOf(func::FuncOp func, BlockArgument argument,
                       const Row &row) {
  unsigned place = argument.getArgNumber();
  auto name = func.getArgAttrOfType<StringAttr>(place, attr::kName);
  auto role = func.getArgAttrOfType<StringAttr>(place, attr::kRole);
  return name && role && role.getValue() == role::kParameter &&
         isOf(row, name.getValue());
}

static Expected<cost::StepDetail> simulate(mlir::ModuleOp program,
                                           const cost::Cluster &cluster,
                                           const LoweringSpec &spec) {
  SilencedErrors error(program.getContext());
  auto detail = describeStep(program, cluster, spec);
  if (failed(detail))
    return Error{error.text().empty() ? "it cannot be compiled" : error.text()};
  return std::move(*detail);
}

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
  return simulate(*clone, plan.cluster, plan.spec);
}

static int64_t rankOf(const ExplainedPlan &plan, const Row &row) {
  func::FuncOp func = findProgram(mlir::ModuleOp(plan.program));
  for (BlockArgument argument : func.getArguments())
    if (isWeightOf(func, argument, row))
      return cast<RankedTensorType>(argument.getType()).getRank();
  return 0;
}

/// ": 9.1 ms a step (1.2 ms slower), 4 MiB (as much)", and whether it fits.
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

/// Returns a spec that differs from `spec` in one key of --strategy. Only keys
/// that affect values with this role vary.
static std::vector<std::pair<std::string, LoweringSpec>>
alternativesOf(StringRef role, const LoweringSpec &spec) {
  std::vector<std::pair<std::string, LoweringSpec>> all;
  auto add = [&](const std::string &title, auto change) {
    all.emplace_back(title, spec);
    change(all.back().second);
  };
  bool isStored = role == role::kParameter || role == role::kState;
  for (int64_t zero = 0; isStored && zero <= 3; ++zero)
    if (zero != spec.zero && spec.dp * spec.cp > 1)
      add("zero=" + std::to_string(zero), [&](LoweringSpec &other) {
        other.zero = zero;
        if (zero == 0) // hybrid_shard needs ZeRO
          other.hybridShard = 1;
      });
  if (role == role::kState && spec.offload == cost::Offload::None)
    add("offload=optimizer",
        [](LoweringSpec &other) { other.offload = cost::Offload::Optimizer; });
  if (!role.empty())
    return all;
  if (spec.tp > 1)
    add(spec.sp ? "sp=false" : "sp=true",
        [](LoweringSpec &other) { other.sp = !other.sp; });
  for (cost::Recompute recompute :
       {cost::Recompute::None, cost::Recompute::Selective,
        cost::Recompute::Full})
    if (spec.recompute != recompute)
      add("recompute=" + cost::printValue(recompute),
          [&](LoweringSpec &other) { other.recompute = recompute; });
  return all;
}

static std::string describeKeys(StringRef role, const ExplainedPlan &plan) {
  std::string text;
  for (const auto &[title, spec] : alternativesOf(role, plan.spec)) {
    auto detail = simulate(plan.program, plan.cluster, spec);
    text += "    " + title +
            (detail ? costOf(plan, *detail) + "\n" +
                          trafficDifference(plan.detail, *detail)
                    : ": impossible: " + detail.message() + "\n");
  }
  return text.empty() ? text : "  with another value of a key:\n" + text;
}

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
    return text +
           "  it has no weight: its sharding follows from its operands\n" +
           describeKeys("", plan);
  if (plan.spec.tp == 1) {
    text += "  tensor axes cannot split it, because the strategy has tp=1; "
            "how it is stored follows from zero, hybrid_shard and ep\n";
  } else {
    text += "  with another split of the weight, and the rest chosen again:\n";
    text += describeAlternative(plan, row, {});
    for (int64_t dim = 0; dim < rank; ++dim)
      text += describeAlternative(plan, row, {dim});
  }
  return text + describeKeys(role::kParameter, plan);
}

static std::string reasonOf(StringRef role) {
  return llvm::StringSwitch<std::string>(role)
      .Case(role::kInput,
            "an input is split along the batch over the data ranks and along "
            "the sequence over cp; another split needs other degrees")
      .Case(role::kState,
            "an optimizer state is split as the part of its parameter that a "
            "rank updates: as the parameter, with zero=1 to 3 also over the "
            "ranks of zero")
      .Case(role::kParameter,
            "a small parameter is split as its operators are; with zero=3 also "
            "over the ranks of zero")
      .Case(role::kBuffer, "a buffer is not trained: it is split as its "
                           "operators need it, and zero does not split it")
      .Case(role::kScalar, "a number of the step, on every rank")
      .Default(
          "the split of an operator follows from its operands and from the "
          "costs of the operators around it; recompute decides what it "
          "keeps for the backward pass");
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

static std::vector<NamedValue> valuesOf(const ExplainedPlan &plan) {
  std::vector<NamedValue> values;
  (void)lowerForStrategy(
      plan.program, plan.cluster, plan.spec,
      [&](StringRef phase, ModuleOp lowered) {
        if (phase == "sharded")
          values = namedValues(findProgram(lowered));
      },
      /*layouts=*/nullptr, /*verifies=*/false);
  return values;
}

static Expected<std::string> explainPart(const std::string &part,
                                         const std::vector<NamedValue> &values,
                                         const ExplainedPlan &plan) {
  std::set<std::string> all, found;
  std::vector<std::string> weights;
  const NamedValue *last = nullptr;
  for (const Row &row : plan.detail.operators)
    if (all.insert(row.name).second)
      weights.push_back(row.name);
  for (const NamedValue &value : values) {
    all.insert(value.name);
    if (!value.contains(part))
      continue;
    found.insert(value.name);
    last = &value;
  }
  if (found.size() == 1)
    return explainValue(*last, plan);
  if (!found.empty())
    return Error{"--explain=" + part + ": several values have this name" +
                 nearNames(part, found)};
  std::string near = nearNames(part, all);
  return Error{
      "--explain=" + part +
      ": no parameter, state, input or operator has this name" +
      (near.empty() ? listOf("; operators with weights: ", weights) : near)};
}

Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan) {
  std::vector<NamedValue> values = valuesOf(plan);
  // Prefer full names to parts, and operators with a weight to other values.
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
