//===- CompressCollectives.cpp - dpc-compress-collectives -----------------===//
//
// Blocks of 256 numbers travel as int8 with one f32 scale each:
//
//   scale = max |x| / 127, code = round(x / scale), x ~ code * scale
//
// so that a number is off by at most 1/254 of the largest of its block. A block
// that holds a NaN or an infinity gets such a scale, and all of it is NaN or
// infinite. With n ranks, [rows, 256] being the tensors one after the other,
// each from a new row on:
//
//   all_reduce      codes, scales of [n, rows / n, 256] -> all_to_all
//                   -> sum over n, in f32: this rank's part of the sum
//                   -> codes, scales -> all_gather -> numbers
//   reduce_scatter  the first half
//   all_gather      the second half
//
// A number is rounded once by each rank that adds to it, and once more where
// the sum travels; nothing is rounded in between. All ranks compute the sum
// from the same bytes: it has the same bits everywhere.
//
// A reduction has two exchanges with computation between them. That would wait
// for the first if it stood behind it, so it stands behind the codes of the
// next compressed collective, or before the first op that needs the result:
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
#include "passes/shard/Degrees.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCCOMPRESSCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

constexpr int64_t kBlock = kCompressBlock;
constexpr double kLargestCode = 127;
/// Blocks of smaller numbers become zeros: 127 / max must be finite.
constexpr double kLeast = 1e-30;
/// Bytes of a block that travels.
constexpr int64_t kBlockBytes = kBlock + 4;

/// Codes [.., rows, 256] and their scales [.., rows].
struct Codes {
  Value codes, scales;
};

class QuantizeBuilder {
public:
  explicit QuantizeBuilder(GraphBuilder &g) : g(g) {}

  /// `x` [.., 256] of f32.
  Codes encode(Value x) {
    int64_t last = tensorType(x).getRank() - 1;
    Value largest =
        g.reduce(ReduceKind::max, g.unary(UnaryKind::abs, x), {last});
    Value enough =
        g.compare(CompareKind::gt, largest, g.constantLike(largest, kLeast));
    Value inverse =
        g.select(enough, g.div(g.constantLike(largest, kLargestCode), largest),
                 g.constantLike(largest, 0));
    Value scaled = g.mul(x, alongRows(inverse, shapeOf(x)));
    Value rounded =
        g.unary(UnaryKind::floor, g.add(scaled, g.constantLike(scaled, 0.5)));
    // What is no number has no code; its scale says it.
    Value isNumber = g.compare(CompareKind::eq, rounded, rounded);
    rounded = g.select(isNumber, rounded, g.constantLike(rounded, 0));
    return {g.convert(rounded, g.builder.getI8Type()),
            g.scale(largest, 1 / kLargestCode)};
  }

  Value decode(Codes from) {
    Value numbers = g.convert(from.codes, g.builder.getF32Type());
    return g.mul(numbers, alongRows(from.scales, shapeOf(from.codes)));
  }

private:
  Value alongRows(Value perRow, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> dims;
    for (int64_t i = 0, e = tensorType(perRow).getRank(); i < e; ++i)
      dims.push_back(i);
    return g.broadcast(perRow, shape, dims);
  }

  GraphBuilder &g;
};

int64_t elementsOf(Value value) { return tensorType(value).getNumElements(); }

/// Replaces one collective; see the file comment.
class Compressor {
public:
  Compressor(Operation *op, int64_t ranks)
      : op(op), listener(op), ranks(ranks),
        axes(cast<CollectiveOpInterface>(op).getAxes()),
        pieces(isa<ReduceScatterOp>(op) ? ranks : 1) {}

  /// Whether fewer bytes travel than without.
  bool pays() const {
    int64_t plain = 0;
    for (Value input : op->getOperands())
      plain += sizeInBytes(tensorType(input));
    int64_t sent = rowsPerRank() * kBlockBytes * (isGather() ? 1 : ranks);
    return sent < plain;
  }

  /// Emits what happens where the collective stands.
  void handOver() {
    OpBuilder builder(op, &listener);
    GraphBuilder g(builder, op->getLoc());
    SmallVector<Value> all;
    int64_t rows = 0;
    for (Value input : op->getOperands()) {
      all.push_back(asRows(g, input));
      rows += shapeOf(all.back())[1];
    }
    Value x = all.front();
    auto typed = [&](int64_t n) {
      return RankedTensorType::get({pieces, n, kBlock}, builder.getF32Type());
    };
    if (all.size() > 1)
      x = ConcatOp::create(builder, op->getLoc(), typed(rows), all, 1);
    int64_t perRank = rowsPerRank();
    if (isa<AllReduceOp>(op)) {
      if (rows != perRank * ranks)
        x = g.pad(x, {1, perRank * ranks, kBlock}, {0, 0, 0}, {1, 1, 1});
      x = g.reshape(x, {ranks, perRank, kBlock});
    } else if (isGather()) {
      x = g.reshape(x, {perRank, kBlock});
    }
    Codes own = QuantizeBuilder(g).encode(x);
    travelled = isGather() ? exchange<AllGatherOp>(builder, own)
                           : exchange<AllToAllOp>(builder, own);
  }

  /// What follows: before `sumAt`, and before `resultsAt` what readers need.
  void finish(Operation *sumAt, Operation *resultsAt) {
    OpBuilder builder(sumAt, &listener);
    GraphBuilder g(builder, op->getLoc());
    QuantizeBuilder quantize(g);
    Value sum;
    if (!isGather())
      sum = g.reduce(ReduceKind::sum, quantize.decode(travelled), {0});
    if (isa<AllReduceOp>(op))
      travelled = exchange<AllGatherOp>(builder, quantize.encode(sum));
    builder.setInsertionPoint(resultsAt);
    replaceAll(g, isa<ReduceScatterOp>(op) ? sum : quantize.decode(travelled));
    op->erase();
  }

private:
  bool isGather() const { return isa<AllGatherOp>(op); }
  /// Rows that a rank reduces, or brings to a gather.
  int64_t rowsPerRank() const {
    int64_t rows = 0;
    for (Value input : op->getOperands())
      rows += ceilDiv(elementsOf(input) / pieces, kBlock);
    return isa<AllReduceOp>(op) ? ceilDiv(rows, ranks) : rows;
  }

  /// [pieces, rows of 256], in f32, with zeros behind.
  Value asRows(GraphBuilder &g, Value x) {
    int64_t count = elementsOf(x) / pieces, rows = ceilDiv(count, kBlock);
    x = g.reshape(g.convert(x, g.builder.getF32Type()), {pieces, count});
    if (rows * kBlock != count)
      x = g.pad(x, {pieces, rows * kBlock}, {0, 0}, {1, 1});
    return g.reshape(x, {pieces, rows, kBlock});
  }

  Codes gather(GraphBuilder &g, Codes own);
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

  /// Hands `rows`, [.., 256] of f32, out to the readers of the results.
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
  /// Stacked in the operand of a reduce_scatter, each with rows of its own.
  int64_t pieces;
  Codes travelled;
};

/// Compresses what is marked in a function of the local altitude.
class FunctionCompressor {
public:
  explicit FunctionCompressor(func::FuncOp func)
      : func(func), block(func.getBody().front()),
        mesh(func->getAttrOfType<MeshAttr>(attr::kMesh)) {}

  void run() {
    pickLargest();
    for (Operation &op : block) {
      auto how = op.getAttrOfType<StringAttr>(attr::kCompress);
      if (how && how.getValue() == "int8")
        marked.push_back(&op);
    }
    for (auto [i, op] : llvm::enumerate(marked)) {
      op->removeAttr(attr::kCompress);
      Compressor compressor(op, ranksOf(op));
      if (!compressor.pays())
        continue;
      Operation *next = i + 1 < marked.size() ? marked[i + 1] : nullptr;
      Operation *needed = firstNeed(op);
      compressor.handOver();
      bool beforeNeed = next && next->isBeforeInBlock(needed);
      Operation *sumAt = beforeNeed ? next->getNextNode() : needed;
      compressor.finish(sumAt, needed);
    }
  }

private:
  /// The all-reduces marked topk.
  void pickLargest() {
    SmallVector<AllReduceOp> ops;
    block.walk([&](AllReduceOp op) {
      auto how = op->getAttrOfType<StringAttr>(attr::kCompress);
      if (how && topkShare(how.getValue()))
        ops.push_back(op);
    });
    for (AllReduceOp op : ops) {
      double share =
          *topkShare(op->getAttrOfType<StringAttr>(attr::kCompress).getValue());
      auto of = op->getAttrOfType<StringAttr>(attr::kOf);
      op->removeAttr(attr::kCompress);
      op->removeAttr(attr::kOf);
      AttributeListener listener(op);
      TopKReduction reduction(op, ranksOf(op), share);
      OpBuilder builder(op, &listener);
      GraphBuilder g(builder, op.getLoc());
      BlockArgument residual =
          addResidual(func, of.getValue(), reduction.rows());
      setNextResidual(func, residual, reduction.handOver(g, residual));
      builder.setInsertionPoint(firstNeed(op));
      reduction.finish(g);
      op->erase();
    }
  }

  int64_t ranksOf(Operation *op) const {
    int64_t ranks = 1;
    for (auto axis :
         cast<CollectiveOpInterface>(op).getAxes().getAsRange<StringAttr>())
      ranks *= mesh.axisSize(axis.getValue());
    return ranks;
  }

  /// The first op behind `op` that reads a result, or that runs in another
  /// phase.
  Operation *firstNeed(Operation *op) const {
    Operation *at = op->getNextNode();
    for (; at != block.getTerminator(); at = at->getNextNode()) {
      if (phaseKey(at) != phaseKey(op))
        break;
      if (llvm::any_of(at->getOperands(), [&](Value operand) {
            return operand.getDefiningOp() == op;
          }))
        break;
    }
    return at;
  }

  func::FuncOp func;
  Block &block;
  MeshAttr mesh;
  SmallVector<Operation *> marked;
};

struct CompressCollectivesPass
    : impl::DpcCompressCollectivesBase<CompressCollectivesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh))
        FunctionCompressor(func).run();
  }
};

} // namespace
} // namespace dpc
