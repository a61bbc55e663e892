//===- DescribeOperators.cpp - The shardings of operators -----------------===//
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "passes/price/DescribeStep.h"

using namespace mlir;
using namespace dpc;

/// Returns the parameter from which `value` is computed by views, conversions
/// and reshards, or null.
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

/// Returns the mesh axes that shard a dimension, outermost first.
static SmallVector<std::string> shardingAxes(const ShardingSpec &spec,
                                             int64_t dim) {
  SmallVector<std::string> names;
  for (const Factor &factor : spec.dims[dim])
    for (int64_t axis : factor.axes)
      if (spec.mesh.getNames()[axis].getValue() != kMicroBatchAxis)
        names.push_back(spec.mesh.getNames()[axis].getValue().str());
  return names;
}

std::string dpc::shardingText(Value value) {
  auto spec = ShardingSpec::get(tensorType(value));
  if (!spec)
    return "";
  std::string text, partial;
  for (size_t dim = 0; dim < spec->dims.size(); ++dim) {
    SmallVector<std::string> axes = shardingAxes(*spec, dim);
    text += (dim ? ", " : "") + (axes.empty() ? "-" : llvm::join(axes, "+"));
  }
  for (const PartialAxis &axis : spec->partial)
    if (StringRef name = spec->mesh.getNames()[axis.axis].getValue();
        name != kMicroBatchAxis)
      partial += (partial.empty() ? ", partial over " : "+") + name.str();
  return "[" + text + "]" + partial;
}

static std::string shapeText(Value value) {
  return llvm::join(
      llvm::map_range(shapeOf(value),
                      [](int64_t size) { return std::to_string(size); }),
      " x ");
}

/// Returns the tensor axes that shard `dim`, such as "tp0+tp1".
static std::string tensorAxes(const ShardingSpec &spec, int64_t dim) {
  SmallVector<std::string> axes = shardingAxes(spec, dim);
  llvm::erase_if(axes, [](const std::string &a) { return !isTensorAxis(a); });
  return llvm::join(axes, "+");
}

static std::string kindOf(MatmulOp op, bool isLeft,
                          const ShardingSpec &weight) {
  int64_t last = static_cast<int64_t>(weight.dims.size()) - 1;
  bool transposed = isLeft ? op.getTa() : op.getTb();
  // The weight has shape [.., k, n] on the right and [.., m, k] on the left,
  // where k is the contracted dimension.
  bool contractsLast = isLeft != transposed;
  std::string in = tensorAxes(weight, contractsLast ? last : last - 1);
  std::string out = tensorAxes(weight, contractsLast ? last - 1 : last);
  std::string kind = !in.empty() && !out.empty()
                         ? "2D parallel (" + in + " in, " + out + " out)"
                     : !out.empty() ? "column parallel (" + out + ")"
                     : !in.empty()  ? "row parallel (" + in + ")"
                                    : "whole on each rank";
  for (int64_t dim = 0; dim < last - 1; ++dim)
    if (!shardingAxes(weight, dim).empty())
      kind = "expert parallel (" + llvm::join(shardingAxes(weight, dim), "+") +
             "), " + kind;
  return kind;
}

static std::string kindOf(ExpertMatmulOp op, const ShardingSpec &weight) {
  std::string in = tensorAxes(weight, op.getTb() ? 2 : 1),
              out = tensorAxes(weight, op.getTb() ? 1 : 2),
              experts = llvm::join(shardingAxes(weight, 0), "+");
  std::string kind = !out.empty()  ? "column parallel (" + out + ")"
                     : !in.empty() ? "row parallel (" + in + ")"
                                   : "";
  if (!experts.empty())
    kind =
        "expert parallel (" + experts + ")" + (kind.empty() ? "" : ", " + kind);
  return kind.empty() ? "whole on each rank" : kind;
}

static std::string kindOf(AttentionOp op) {
  auto spec = ShardingSpec::get(tensorType(op->getResult(0)));
  if (!spec)
    return "";
  std::string heads = llvm::join(shardingAxes(*spec, 1), "+");
  std::string rows = llvm::join(shardingAxes(*spec, 2), "+");
  std::string kind = heads.empty() ? "" : "heads over " + heads;
  if (!rows.empty())
    kind += (kind.empty() ? "" : ", ") + ("sequence over " + rows);
  return kind.empty() ? "all heads on each rank" : kind;
}

static std::string kindOf(Operation *op, int64_t number) {
  auto spec = ShardingSpec::get(tensorType(op->getOperand(number)));
  if (!spec)
    return "";
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return kindOf(matmul, number == 0, *spec);
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return kindOf(product, *spec);
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
    auto result = ShardingSpec::get(tensorType(op->getResult(0)));
    for (size_t dim = 0; result && dim + 1 < result->dims.size(); ++dim)
      if (std::string axes = tensorAxes(*result, dim); !axes.empty())
        return "sequence parallel (" + axes + ")";
  }
  return "whole on each rank";
}

/// Returns nothing for an op that is not attention and has no weight.
static std::optional<cost::OperatorSharding> rowOf(Operation *op,
                                                   func::FuncOp func) {
  cost::OperatorSharding row;
  row.op = op->getName().stripDialect().str();
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    row.name = "attention";
    row.kind = kindOf(attention);
    row.shape = shapeText(op->getOperand(0));
    row.used = shardingText(op->getOperand(0));
    row.result = shardingText(op->getResult(0));
    return row;
  }
  if (!isa<MatmulOp, ExpertMatmulOp, EmbeddingOp, NormOp, ConvOp>(op))
    return std::nullopt;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    BlockArgument parameter = parameterOf(operand, func);
    if (!parameter)
      continue;
    auto name = func.getArgAttrOfType<StringAttr>(parameter.getArgNumber(),
                                                  attr::kName);
    row.name = name ? patternOf(name.getValue()) : "parameter";
    row.kind = kindOf(op, number);
    row.shape = shapeText(parameter);
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
