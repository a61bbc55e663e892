//===- ExplainValues.cpp - What has a name in a sharded program -----------===//
#include "tools/driver/ExplainValues.h"

#include "cost-model/report/Report.h"
#include "ir/Dialect.h"
#include "ir/Sharding.h"
#include "passes/price/DescribeStep.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dpc {

bool NamedValue::isCalled(StringRef asked) const {
  if (asked == name || members.count(asked.str()))
    return true;
  asked.consume_back("_output_0") || asked.consume_back(":0");
  return role.empty() && members.count(asked.str());
}

bool NamedValue::contains(StringRef part) const {
  return StringRef(name).contains(part) ||
         llvm::any_of(members, [&](const std::string &member) {
           return StringRef(member).contains(part);
         });
}

/// "8 x 32 x 64 f32 lie as [dp, -, -]: 32.0 KiB of 64.0 KiB on a rank"
static std::string liesAs(Value value) {
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
  return text + " lie as " + sharding + ": " +
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

/// Where a result is moved: other axes, or a sum of what is partial.
static std::string movesOf(Value value) {
  std::string text;
  for (Operation *user : value.getUsers())
    if (isa<ReshardOp>(user)) {
      std::string next = shardingText(user->getResult(0));
      if (!StringRef(text).contains(next))
        text += "; then moved to " + next;
    }
  return text;
}

static std::string lineOf(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (isa<RankedTensorType>(operand.getType()))
      text += (i == 0 ? " of " : " and ") + shardingText(operand);
  for (Value result : op->getResults())
    text += ", result " + liesAs(result) + movesOf(result);
  if (std::optional<int64_t> stage = stageOf(op))
    text += "; stage " + std::to_string(*stage);
  return text;
}

namespace {

/// Joins what is alike.
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

std::vector<NamedValue> namedValues(func::FuncOp sharded) {
  Collector collector;
  for (BlockArgument argument : sharded.getArguments()) {
    unsigned place = argument.getArgNumber();
    auto name = sharded.getArgAttrOfType<StringAttr>(place, attr::kName);
    auto role = sharded.getArgAttrOfType<StringAttr>(place, attr::kRole);
    if (name && role)
      collector.add(name, role, liesAs(argument) + readersOf(argument));
  }
  for (Operation &op : sharded.getBody().front().without_terminator())
    if (auto loc = dyn_cast<NameLoc>(op.getLoc());
        loc && phaseOf(&op) == Phase::forward && !isa<ReshardOp>(op))
      collector.add(loc.getName(), "", lineOf(&op));
  return std::move(collector.values);
}

/// How many letters differ, of the name or of its end behind a dot or slash.
static unsigned distance(StringRef asked, StringRef name) {
  unsigned least = asked.edit_distance(name);
  for (size_t i = 0; i + 1 < name.size(); ++i)
    if (name[i] == '.' || name[i] == '/')
      least = std::min(least, asked.edit_distance(name.drop_front(i + 1)) + 1);
  return least;
}

std::string nearNames(StringRef asked, const std::set<std::string> &names) {
  constexpr size_t kMost = 5;
  std::vector<std::pair<unsigned, std::string>> byDistance;
  byDistance.reserve(names.size());
  for (const std::string &name : names)
    byDistance.emplace_back(distance(asked, name), name);
  llvm::sort(byDistance);
  std::string text;
  for (const auto &[_, name] : llvm::ArrayRef(byDistance).take_front(kMost))
    text += (text.empty() ? "; near: " : ", ") + name;
  return text;
}

} // namespace dpc
