//===- LowerExperts.cpp - Products of rows with their experts -------------===//
#include "codegen/plan/StageDraft.h"

#include "codegen/kernel/KernelScalars.h"
#include "ir/ExpertTiles.h"
#include "runtime/plan/PlanExperts.h"

using namespace mlir;

namespace dpc::codegen {

/// Returns how many consecutive ids share a row of `rows`.
static int64_t sharesOf(Value rows, int64_t ids) {
  int64_t count = llvm::product_of(tensorType(rows).getShape().drop_back());
  return count == 0 ? 1 : ids / count;
}

LogicalResult lowerExpertMatmul(StageDraft &s, Operation *op) {
  if (looksUpInFactors(op))
    return op->emitOpError("splits experts in several factors");
  rt::ExpertMatmulOp call;
  auto product = dyn_cast<ExpertMatmulOp>(op);
  Value x = op->getOperand(0), ids = op->getOperand(1),
        result = op->getResult(0);
  Value w = product ? product.getW() : result;
  Value y = product ? result : op->getOperand(2);
  // In a tile, a result that has a buffer is a sum of tiles.
  call.accumulates = s.slots.find(result) != nullptr;
  if (!call.accumulates)
    s.slots.make(result);
  for (auto [value, id] :
       {std::pair(x, &call.x), {ids, &call.ids}, {w, &call.w}, {y, &call.y}}) {
    FailureOr<int> buffer = contiguousBuffer(s, op, value);
    if (failed(buffer))
      return failure();
    *id = *buffer;
  }
  call.kind = product ? rt::ExpertMatmulKind::Forward
                      : rt::ExpertMatmulKind::GradWeight;
  call.rows = tensorType(ids).getNumElements();
  call.sharesX = sharesOf(x, call.rows);
  call.sharesY = sharesOf(y, call.rows);
  call.experts = tensorType(w).getDimSize(0);
  call.k = tensorType(x).getShape().back();
  call.n = tensorType(y).getShape().back();
  call.transW = product && product.getTb();
  call.valid.value = call.experts;
  if (SmallVector<rt::ScalarExpr> own = scalarsOf(op); !own.empty())
    std::tie(call.first, call.valid) = std::tuple(own[0], own[1]);
  Type type = elementTypeOf(x);
  if (!type.isF32() && !type.isF64() && !type.isBF16() && !type.isF16())
    return op->emitOpError() << "of " << type << " cannot be executed; f32, "
                             << "f64, bf16 and f16 can";
  call.compute = *dtypeOf(type);
  call.workspace = s.slots.addWorkspace(
      op->getContext(), rt::expertWorkspaceBytes(call.rows, call.experts),
      "order of rows by expert");
  s.list.emit(s.schedule.phaseOf(op), std::move(call), "experts").flops =
      cast<CostOpInterface>(op).getFlops();
  return success();
}

/// Adds the buffers of the ids and rows of a tile.
static LogicalResult bindTakes(StageDraft &s, ExpertTilesOp op,
                               rt::ExpertTilesOp &call) {
  Block &block = op.getBody().front();
  FailureOr<int> ids = contiguousBuffer(s, op, op.getIds());
  if (failed(ids))
    return failure();
  call.ids = *ids;
  call.tileIds = s.slots.addBuffer(
      block.getArgument(0), rt::BufferKind::Workspace, "experts of a tile");
  for (auto [argument, input, share] :
       llvm::zip_equal(block.getArguments().drop_front(), op.getInputs(),
                       op.getInShares())) {
    if (share == 0) {
      s.slots.set(argument, s.slots.at(input));
      continue;
    }
    FailureOr<int> rows = contiguousBuffer(s, op, input);
    if (failed(rows))
      return failure();
    int tile = s.slots.addBuffer(argument, rt::BufferKind::Workspace,
                                 "rows of a tile");
    call.takes.push_back({*rows, tile, share});
  }
  return success();
}

/// Lowers the body to instructions.
static LogicalResult lowerBody(StageDraft &s, Block &block,
                               std::vector<rt::Instruction> &body) {
  InstructionList outer;
  outer.source = s.list.source;
  std::swap(outer, s.list);
  bool isLowered =
      llvm::all_of(block.without_terminator(), [&](Operation &inner) {
        return succeeded(lower(s, &inner));
      });
  for (Item &item : s.list.items)
    body.push_back(std::move(item.instruction));
  s.list = std::move(outer);
  return success(isLowered);
}

LogicalResult lowerExpertTiles(StageDraft &s, ExpertTilesOp op) {
  if (looksUpInFactors(op))
    return op->emitOpError("splits experts in several factors");
  rt::ExpertTilesOp call;
  call.rows = shapeOf(op.getIds())[0];
  call.tileRows = op.getTileRows();
  call.experts =
      localType(cast<RankedTensorType>(op.getGlobal())).getDimSize(0);
  call.valid.value = call.experts;
  if (SmallVector<rt::ScalarExpr> own = scalarsOf(op); !own.empty())
    std::tie(call.first, call.valid) = std::tuple(own[0], own[1]);
  if (failed(bindTakes(s, op, call)))
    return failure();
  Block &block = op.getBody().front();
  auto yielded = block.getTerminator()->getOperands();
  SmallVector<int> results;
  for (OpResult result : op->getResults()) {
    s.slots.make(result);
    results.push_back(*s.slots.denseBuffer(result));
    unsigned number = result.getResultNumber();
    if (!addsInPlace(op, number))
      continue;
    s.slots.set(yielded[number], s.slots.at(result));
    call.sums.push_back(results.back());
  }
  if (failed(lowerBody(s, block, call.body)))
    return failure();
  for (auto [number, value] : llvm::enumerate(yielded)) {
    if (addsInPlace(op, number))
      continue;
    FailureOr<int> tile = contiguousBuffer(s, op, value);
    if (failed(tile))
      return failure();
    call.adds.push_back({results[number], *tile, op.getOutShares()[number]});
  }
  call.workspace = s.slots.addWorkspace(
      op->getContext(), rt::expertWorkspaceBytes(call.rows, call.experts),
      "order of rows by expert");
  rt::Queue queue = rt::Queue::Compute;
  if (ArrayAttr axes = op.getExchangeAttr()) {
    FailureOr<int> group = groupOf(s, op, axes, /*ordered=*/true);
    if (failed(group))
      return failure();
    call.group = *group;
    call.staged = s.slots.addWorkspace(op->getContext(), stagedBytes(op),
                                       "rows on their way");
    queue = rt::Queue::Comm;
  }
  s.list
      .emit(s.schedule.phaseOf(op), std::move(call), "tiles of experts", queue)
      .flops = op.getFlops();
  return success();
}

} // namespace dpc::codegen
