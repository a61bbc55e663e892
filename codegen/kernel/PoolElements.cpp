//===- PoolElements.cpp - Elements of pools and their gradients -----------===//
#include "codegen/kernel/ElementEmitter.h"

using namespace mlir;

namespace dpc::codegen {

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

using TapBody =
    llvm::function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)>;

/// Carries values through all taps of a window, row-major.
static SmallVector<Value> foldTaps(ElementEmitter &b, ArrayRef<int64_t> kernel,
                                   SmallVector<Value> &taps, ValueRange init,
                                   TapBody body) {
  if (taps.size() == kernel.size())
    return body(taps, init);
  return b.foldLoop(constantI64(b, kernel[taps.size()]), init,
                    [&](Value tap, ValueRange carried) {
                      taps.push_back(tap);
                      auto next = foldTaps(b, kernel, taps, carried, body);
                      taps.pop_back();
                      return next;
                    });
}

namespace {

/// Arithmetic on positions, which are i64.
struct Positions {
  ImplicitLocOpBuilder &b;

  Value constant(int64_t value) { return constantI64(b, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mul(Value x, int64_t factor) {
    return arith::MulIOp::create(b, x, constant(factor));
  }
  Value is(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  /// 0 <= x < size, by one unsigned comparison.
  Value inside(Value x, int64_t size) {
    return is(arith::CmpIPredicate::ult, x, constant(size));
  }
  /// `x` where `condition` holds, else 0: always safe to read.
  Value orZero(Value condition, Value x) {
    return arith::SelectOp::create(b, condition, x, constant(0));
  }
  Value both(Value x, Value y) {
    return x ? Value(arith::AndIOp::create(b, x, y)) : y;
  }
};

} // namespace

// y and the index of its element are found together; the other one is noted
// for whoever asks for it at the same indices.
Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                ArrayRef<Index> indices) {
  Positions p{b};
  ArrayRef<int64_t> image = shapeOf(op.getX()).drop_front(2);
  Type type = elementOf(op.getX());
  SmallVector<Value> windows, taps;
  for (auto [d, index] : llvm::enumerate(indices.drop_front(2)))
    windows.push_back(
        p.sub(p.mul(b.space.materialize(b, index), op.getStrides()[d]),
              p.constant(op.getPads()[d])));
  Value lowest = b.math.neutral(ReduceKind::max, type);
  auto found = foldTaps(
      b, op.getKernel(), taps, ValueRange{lowest, p.constant(-1)},
      [&](ArrayRef<Value> tap, ValueRange best) {
        Indices place(indices.take_front(2));
        Value inside, position = p.constant(0);
        for (size_t d = 0; d < image.size(); ++d) {
          Value i = p.add(windows[d], p.mul(tap[d], op.getDilations()[d]));
          Value valid = p.inside(i, image[d]);
          inside = p.both(inside, valid);
          i = p.orZero(valid, i);
          position = p.add(p.mul(position, image[d]), i);
          place.push_back(LoopSpace::opaque(i));
        }
        Value x = b.at(op.getX(), place);
        // Larger, or NaN, or the first one there is.
        Value larger =
            arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, best[0]);
        Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
        Value first = p.is(arith::CmpIPredicate::slt, best[1], p.constant(0));
        Value wins = arith::OrIOp::create(
            b, arith::OrIOp::create(b, larger, isNan), first);
        wins = arith::AndIOp::create(b, wins, inside);
        return SmallVector<Value>{
            arith::SelectOp::create(b, wins, x, best[0]),
            arith::SelectOp::create(b, wins, position, best[1])};
      });
  Value both[] = {found[0], b.math.convert(found[1], elementOf(op.getIndex()))};
  unsigned other = 1 - result;
  b.remember(op->getResult(other), indices, both[other]);
  return both[result];
}

Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                    ArrayRef<Index> indices) {
  Positions p{b};
  ArrayRef<int64_t> windows = shapeOf(op.getDy()).drop_front(2);
  ArrayRef<int64_t> image = shapeOf(op.getDx()).drop_front(2);
  Type type = elementOf(op.getDx());
  SmallVector<Value> places, taps;
  Value own = p.constant(0);
  for (auto [d, index] : llvm::enumerate(indices.drop_front(2))) {
    Value i = b.space.materialize(b, index);
    own = p.add(p.mul(own, image[d]), i);
    places.push_back(p.add(i, p.constant(op.getPads()[d])));
  }
  Value none = b.math.constant(type, 0);
  return foldTaps(
      b, op.getKernel(), taps, ValueRange{none},
      [&](ArrayRef<Value> tap, ValueRange sum) {
        Indices place(indices.take_front(2));
        Value reads;
        for (size_t d = 0; d < windows.size(); ++d) {
          // The window whose tap this is: (place - tap * dilation) / stride.
          Value begin = p.sub(places[d], p.mul(tap[d], op.getDilations()[d]));
          Value stride = p.constant(op.getStrides()[d]);
          Value window = begin;
          if (op.getStrides()[d] != 1) {
            Value rest = arith::RemSIOp::create(b, begin, stride);
            reads = p.both(reads,
                           p.is(arith::CmpIPredicate::eq, rest, p.constant(0)));
            window = arith::DivSIOp::create(b, begin, stride);
          }
          // -1 / 2 is 0, but the rest is not.
          Value valid = p.inside(window, windows[d]);
          reads = p.both(reads, valid);
          place.push_back(LoopSpace::opaque(p.orZero(valid, window)));
        }
        Value index =
            b.math.convert(b.at(op.getIndex(), place), b.getI64Type());
        Value chosen = arith::AndIOp::create(
            b, reads, p.is(arith::CmpIPredicate::eq, index, own));
        Value share =
            arith::SelectOp::create(b, chosen, b.at(op.getDy(), place), none);
        return SmallVector<Value>{b.math.add(sum[0], share)};
      })[0];
}

} // namespace dpc::codegen
