//===- DescribeOperators.cpp - How operators are split --------------------===//
#include "ir/Sharding.h"
#include "passes/price/DescribeStep.h"

using namespace mlir;
using namespace dpc;

/// The parameter that a value is, but for its layout and type.
static BlockArgument parameterOf(Value value, func::FuncOp func) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ConvertOp, TransposeOp, ReshapeOp, ReshardOp, SliceOp,
             BroadcastOp>(op))
      return nullptr;
    value = op->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(value);
  auto role = argument ? func.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : nullptr;
  return role && role.getValue() == role::kParameter ? argument : nullptr;
}

std::string dpc::patternOf(StringRef name) {
  std::string result;
  while (!name.empty()) {
    size_t end = name.find_first_of("./_:");
    StringRef part = name.take_front(end);
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    result += isNumber ? "*" : part.str();
    name = name.drop_front(part.size());
    if (!name.empty()) {
      result += name.front();
      name = name.drop_front();
    }
  }
  return result;
}

/// The axes of ranks that split a dimension, outermost first.
static SmallVector<std::string> splittingAxes(const ShardingSpec &spec,
                                              int64_t dim) {
  SmallVector<std::string> names;
  for (const Factor &factor : spec.dims[dim])
    for (int64_t axis : factor.axes)
      if (spec.mesh.getNames()[axis].getValue() != kMicroBatchAxis)
        names.push_back(spec.mesh.getNames()[axis].getValue().str());
  return names;
}

std::string dpc::shardingText(Value value) {
  auto spec = ShardingSpec::get(cast<RankedTensorType>(value.getType()));
  if (!spec)
    return "";
  std::string text, partial;
  for (size_t dim = 0; dim < spec->dims.size(); ++dim) {
    SmallVector<std::string> axes = splittingAxes(*spec, dim);
    text += (dim ? ", " : "") + (axes.empty() ? "-" : llvm::join(axes, "+"));
  }
  for (const PartialAxis &axis : spec->partial)
    if (StringRef name = spec->mesh.getNames()[axis.axis].getValue();
        name != kMicroBatchAxis)
      partial += (partial.empty() ? ", partial over " : "+") + name.str();
  return "[" + text + "]" + partial;
}

static std::string shapeOf(Value value) {
  std::string text;
  for (int64_t size : cast<RankedTensorType>(value.getType()).getShape())
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

/// The tensor axes among those that split `dim`, "tp0+tp1".
static std::string tensorAxes(const ShardingSpec &spec, int64_t dim) {
  SmallVector<std::string> axes = splittingAxes(spec, dim);
  llvm::erase_if(axes, [](const std::string &a) { return !isTensorAxis(a); });
  return llvm::join(axes, "+");
}

static std::string kindOf(MatmulOp op, bool isLeft,
                          const ShardingSpec &weight) {
  int64_t last = static_cast<int64_t>(weight.dims.size()) - 1;
  bool transposed = isLeft ? op.getTa() : op.getTb();
  // As [.., k, n] on the right, as [.., m, k] on the left.
  bool contractsLast = isLeft != transposed;
  std::string in = tensorAxes(weight, contractsLast ? last : last - 1);
  std::string out = tensorAxes(weight, contractsLast ? last - 1 : last);
  std::string kind = !in.empty() && !out.empty()
                         ? "2D parallel (" + in + " in, " + out + " out)"
                     : !out.empty() ? "column parallel (" + out + ")"
                     : !in.empty()  ? "row parallel (" + in + ")"
                                    : "whole on each rank";
  for (int64_t dim = 0; dim < last - 1; ++dim)
    if (!splittingAxes(weight, dim).empty())
      kind = "expert parallel (" + llvm::join(splittingAxes(weight, dim), "+") +
             "), " + kind;
  return kind;
}

static std::string kindOf(AttentionOp op) {
  auto spec =
      ShardingSpec::get(cast<RankedTensorType>(op->getResult(0).getType()));
  if (!spec)
    return "";
  std::string heads = llvm::join(splittingAxes(*spec, 1), "+");
  std::string rows = llvm::join(splittingAxes(*spec, 2), "+");
  std::string kind = heads.empty() ? "" : "heads over " + heads;
  if (!rows.empty())
    kind += (kind.empty() ? "" : ", ") + ("sequence over " + rows);
  return kind.empty() ? "all heads on each rank" : kind;
}

/// Of an op whose operand `number` is a weight.
static std::string kindOf(Operation *op, int64_t number) {
  auto spec = ShardingSpec::get(
      cast<RankedTensorType>(op->getOperand(number).getType()));
  if (!spec)
    return "";
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return kindOf(matmul, number == 0, *spec);
  std::string first = tensorAxes(*spec, 0);
  std::string second = spec->dims.size() > 1 ? tensorAxes(*spec, 1) : "";
  if (isa<EmbeddingOp>(op))
    return !first.empty()    ? "vocabulary parallel (" + first + ")"
           : !second.empty() ? "column parallel (" + second + ")"
                             : "whole on each rank";
  if (isa<ConvOp>(op) && (!first.empty() || !second.empty()))
    return !first.empty() ? "column parallel (" + first + ")"
                          : "row parallel (" + second + ")";
  if (isa<NormOp>(op)) {
    auto made =
        ShardingSpec::get(cast<RankedTensorType>(op->getResult(0).getType()));
    for (size_t dim = 0; made && dim + 1 < made->dims.size(); ++dim)
      if (std::string axes = tensorAxes(*made, dim); !axes.empty())
        return "sequence parallel (" + axes + ")";
  }
  return "whole on each rank";
}

/// A row for an op of the forward, if it is to have one.
static std::optional<cost::OperatorSharding> rowOf(Operation *op,
                                                   func::FuncOp func) {
  cost::OperatorSharding row;
  row.op = op->getName().stripDialect().str();
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    row.name = "attention";
    row.kind = kindOf(attention);
    row.shape = shapeOf(op->getOperand(0));
    row.used = shardingText(op->getOperand(0));
    row.result = shardingText(op->getResult(0));
    return row;
  }
  if (!isa<MatmulOp, EmbeddingOp, NormOp, ConvOp>(op))
    return std::nullopt;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    BlockArgument parameter = parameterOf(operand, func);
    if (!parameter)
      continue;
    auto name = func.getArgAttrOfType<StringAttr>(parameter.getArgNumber(),
                                                  attr::kName);
    row.name = name ? patternOf(name.getValue()) : "parameter";
    row.kind = kindOf(op, number);
    row.shape = shapeOf(parameter);
    row.stored = shardingText(parameter);
    row.used = shardingText(operand);
    row.result = shardingText(op->getResult(0));
    return row;
  }
  return std::nullopt;
}

std::vector<cost::OperatorSharding>
dpc::describeOperators(func::FuncOp sharded) {
  constexpr size_t kMostRows = 300;
  std::vector<cost::OperatorSharding> rows;
  auto isSame = [](const cost::OperatorSharding &a,
                   const cost::OperatorSharding &b) {
    return std::tie(a.name, a.op, a.kind, a.shape, a.stored, a.used,
                    a.result) ==
           std::tie(b.name, b.op, b.kind, b.shape, b.stored, b.used, b.result);
  };
  for (Operation &op : sharded.getBody().front().without_terminator()) {
    if (phaseOf(&op) != Phase::forward)
      continue;
    auto row = rowOf(&op, sharded);
    if (!row)
      continue;
    auto known = llvm::find_if(
        rows, [&](const auto &other) { return isSame(*row, other); });
    if (known != rows.end())
      ++known->count;
    else if (rows.size() < kMostRows)
      rows.push_back(std::move(*row));
  }
  return rows;
}
