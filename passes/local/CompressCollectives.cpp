//===- CompressCollectives.cpp - dpc-compress-collectives -----------------===//
//
// Sends blocks of 256 elements as int8 codes with one f32 scale per block:
//
//   scale = max |x| / 127, code = round(x / scale), x ~ code * scale
//
// The error of an element is at most 1/254 of the largest magnitude in its
// block. If a block contains a NaN or an infinity, every element of the block
// decodes to NaN or infinity. For n ranks, the tensors are concatenated to
// [rows, 256], where each tensor starts in a new row:
//
//   all_reduce      encode [n, rows / n, 256] -> all_to_all -> decode
//                   -> sum over n in f32 -> encode -> all_gather -> decode
//   reduce_scatter  the steps up to the sum
//   all_gather      encode -> all_gather -> decode
//
// Each term is rounded before the sum, and the sum is rounded when it is sent.
// All ranks decode the same bytes, so their results are bitwise equal.
//
// To overlap the first exchange with computation, the sum runs after the codes
// of the next compressed collective, or before the first op that reads it:
//
//   codes 0, all_to_all 0 | .. | codes 1, all_to_all 1, sum 0, all_gather 0 |
//   ..
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CompressTopK.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"
#include "passes/shard/LoweringSpec.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCCOMPRESSCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

constexpr int64_t kBlock = kCompressBlock;
constexpr double kLargestCode = 127;
/// If the largest magnitude `max` in a block is at most kLeast, the block is
/// sent as zeros, because 127 / max could overflow.
constexpr double kLeast = 1e-30;
constexpr int64_t kBlockBytes = kBlock + 4;

/// Codes [.., rows, 256] and their scales [.., rows].
struct Codes {
  Value codes, scales;
};

Value alongRows(GraphBuilder &g, Value perRow, ArrayRef<int64_t> shape) {
  return g.broadcast(
      perRow, shape,
      llvm::to_vector(llvm::seq<int64_t>(0, tensorType(perRow).getRank())));
}

/// Encodes `x`, an f32 tensor of shape [.., 256].
Codes encode(GraphBuilder &g, Value x) {
  int64_t last = tensorType(x).getRank() - 1;
  Value largest = g.reduce(ReduceKind::max, g.unary(UnaryKind::abs, x), {last});
  Value enough =
      g.compare(CompareKind::gt, largest, g.constantLike(largest, kLeast));
  Value inverse =
      g.select(enough, g.div(g.constantLike(largest, kLargestCode), largest),
               g.constantLike(largest, 0));
  Value scaled = g.mul(x, alongRows(g, inverse, shapeOf(x)));
  Value rounded =
      g.unary(UnaryKind::floor, g.add(scaled, g.constantLike(scaled, 0.5)));
  // A NaN has code 0, and the scale of its block is NaN.
  Value isNumber = g.compare(CompareKind::eq, rounded, rounded);
  rounded = g.select(isNumber, rounded, g.constantLike(rounded, 0));
  Value codes = g.convert(rounded, g.builder.getI8Type());
  return {codes, g.scale(largest, 1 / kLargestCode)};
}

Value decode(GraphBuilder &g, Codes from) {
  Value numbers = g.convert(from.codes, g.builder.getF32Type());
  return g.mul(numbers, alongRows(g, from.scales, shapeOf(from.codes)));
}

int64_t elementsOf(Value value) { return tensorType(value).getNumElements(); }

class Compressor {
public:
  Compressor(Operation *op, int64_t ranks)
      : op(op), listener(op), ranks(ranks),
        axes(cast<CollectiveOpInterface>(op).getAxes()),
        pieces(isa<ReduceScatterOp>(op) ? ranks : 1) {}

  /// True if compression reduces the bytes that are sent.
  bool pays() const {
    int64_t sent = rowsPerRank() * kBlockBytes * (isGather() ? 1 : ranks);
    return sent < sizeInBytes(op->getOperands());
  }

  /// Replaces the collective by its first exchange. The sum and the second
  /// exchange run after `next` (the next marked collective, or null) or before
  /// `needed` (the first op that reads the results), whichever comes first.
  void run(Operation *next, Operation *needed) {
    OpBuilder builder(op, &listener);
    GraphBuilder g(builder, op->getLoc());
    SmallVector<Value> all;
    int64_t rows = 0;
    for (Value input : op->getOperands()) {
      all.push_back(asRows(g, input));
      rows += shapeOf(all.back())[1];
    }
    Value x = all.front();
    if (all.size() > 1)
      x = ConcatOp::create(builder, op->getLoc(),
                           tensorType(x).clone({pieces, rows, kBlock}), all, 1);
    int64_t perRank = rowsPerRank();
    if (isa<AllReduceOp>(op)) {
      if (rows != perRank * ranks)
        x = g.pad(x, {1, perRank * ranks, kBlock}, {0, 0, 0}, {1, 1, 1});
      x = g.reshape(x, {ranks, perRank, kBlock});
    } else if (isGather()) {
      x = g.reshape(x, {perRank, kBlock});
    }
    Codes own = encode(g, x);
    Codes received = isGather() ? exchange<AllGatherOp>(builder, own)
                                : exchange<AllToAllOp>(builder, own);
    bool beforeNeed = next && next->isBeforeInBlock(needed);
    builder.setInsertionPoint(beforeNeed ? next->getNextNode() : needed);
    Value sum;
    if (!isGather())
      sum = g.reduce(ReduceKind::sum, decode(g, received), {0});
    if (isa<AllReduceOp>(op))
      received = exchange<AllGatherOp>(builder, encode(g, sum));
    builder.setInsertionPoint(needed);
    replaceAll(g, isa<ReduceScatterOp>(op) ? sum : decode(g, received));
    op->erase();
  }

private:
  bool isGather() const { return isa<AllGatherOp>(op); }
  /// Returns the rows that one rank sums or contributes to an all_gather.
  int64_t rowsPerRank() const {
    int64_t rows = 0;
    for (Value input : op->getOperands())
      rows += ceilDiv(elementsOf(input) / pieces, kBlock);
    return isa<AllReduceOp>(op) ? ceilDiv(rows, ranks) : rows;
  }

  /// Reshapes `x` to [pieces, rows, 256] in f32, padded with zeros.
  Value asRows(GraphBuilder &g, Value x) {
    int64_t count = elementsOf(x) / pieces, rows = ceilDiv(count, kBlock);
    x = g.reshape(g.convert(x, g.builder.getF32Type()), {pieces, count});
    if (rows * kBlock != count)
      x = g.pad(x, {pieces, rows * kBlock}, {0, 0}, {1, 1});
    return g.reshape(x, {pieces, rows, kBlock});
  }

  template <typename Exchange> Codes exchange(OpBuilder &builder, Codes from) {
    auto send = [&](Value x) -> Value {
      SmallVector<int64_t> shape(shapeOf(x));
      if (std::is_same_v<Exchange, AllGatherOp>)
        shape.insert(shape.begin(), ranks);
      auto type = RankedTensorType::get(shape, elementTypeOf(x));
      return Exchange::create(builder, op->getLoc(), type, x, axes)
          ->getResult(0);
    };
    Value codes = send(from.codes);
    return {codes, send(from.scales)};
  }

  /// Replaces the results by slices of `rows`, [.., 256] in f32.
  void replaceAll(GraphBuilder &g, Value rows) {
    int64_t lead = isGather() ? ranks : 1;
    int64_t count = elementsOf(rows) / kBlock / lead, first = 0;
    rows = g.reshape(rows, {lead, count, kBlock});
    for (Value result : op->getResults()) {
      RankedTensorType type = tensorType(result);
      int64_t size = type.getNumElements() / lead;
      int64_t own = ceilDiv(size, kBlock);
      Value x = rows;
      if (own != count)
        x = g.slice(x, {lead, own, kBlock}, {0, first, 0}, {1, 1, 1});
      first += own;
      x = g.reshape(x, {lead, own * kBlock});
      if (own * kBlock != size)
        x = g.slice(x, {lead, size}, {0, 0}, {1, 1});
      x = g.convert(g.reshape(x, type.getShape()), type.getElementType());
      result.replaceAllUsesWith(x);
    }
  }

  Operation *op;
  AttributeListener listener;
  int64_t ranks;
  ArrayAttr axes;
  /// A reduce_scatter has one piece per rank. Each piece starts in a new row.
  int64_t pieces;
};

Operation *firstNeed(Operation *op) {
  Operation *at = op->getNextNode();
  auto needs = [&](Operation *reader) {
    return !isSamePhase(reader, op) ||
           llvm::any_of(reader->getOperands(), [&](Value operand) {
             return operand.getDefiningOp() == op;
           });
  };
  while (!at->hasTrait<mlir::OpTrait::IsTerminator>() && !needs(at))
    at = at->getNextNode();
  return at;
}

int64_t ranksOf(Operation *op, MeshAttr mesh) {
  return ranksOver(mesh, cast<CollectiveOpInterface>(op).getAxes());
}

void expandTopK(func::FuncOp func, MeshAttr mesh) {
  for (auto op : llvm::make_early_inc_range(func.getOps<AllReduceOp>())) {
    auto how = op->getAttrOfType<StringAttr>(attr::kCompress);
    auto share = how ? topkShare(how.getValue()) : std::nullopt;
    if (!share)
      continue;
    auto of = op->getAttrOfType<StringAttr>(attr::kOf);
    op->removeAttr(attr::kCompress);
    op->removeAttr(attr::kOf);
    reduceLargest(func, op, ranksOf(op, mesh), *share, of.getValue(),
                  firstNeed(op));
  }
}

void compress(func::FuncOp func, MeshAttr mesh) {
  expandTopK(func, mesh);
  SmallVector<Operation *> marked;
  for (Operation &op : func.getOps()) {
    auto how = op.getAttrOfType<StringAttr>(attr::kCompress);
    if (how && how.getValue() == "int8")
      marked.push_back(&op);
  }
  for (auto [i, op] : llvm::enumerate(marked)) {
    op->removeAttr(attr::kCompress);
    Compressor compressor(op, ranksOf(op, mesh));
    if (compressor.pays())
      compressor.run(i + 1 < marked.size() ? marked[i + 1] : nullptr,
                     firstNeed(op));
  }
}

struct CompressCollectivesPass
    : impl::DpcCompressCollectivesBase<CompressCollectivesPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (auto mesh = func->getAttrOfType<MeshAttr>(attr::kMesh))
        compress(func, mesh);
  }
};

} // namespace
} // namespace dpc
