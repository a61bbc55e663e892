//===- Emitter.h - Builds or folds dpc ops ----------------------*- C++ -*-===//
//
// Operators are written once, over values that may be known at import time. The
// Emitter evaluates what is known and creates dpc ops for the rest. A null
// value represents a failure that was already noted. Every method passes a null
// value through, so operators need no checks between steps.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_EMITTER_H
#define DPC_FRONTENDS_EMIT_EMITTER_H

#include "frontends/emit/ConstTensor.h"
#include "frontends/emit/Options.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/MapVector.h"

#include <memory>
#include <string>

namespace dpc::frontend {

/// A value of the model: known at import time, computed by the module, or a
/// sequence of such values (onnx/ops/Shapes.cpp).
struct Val {
  std::shared_ptr<const ConstTensor> constant;
  mlir::Value value;
  std::shared_ptr<const std::vector<Val>> parts;

  Val() = default;
  Val(mlir::Value v) : value(v) {}
  Val(ConstTensor tensor)
      : constant(std::make_shared<const ConstTensor>(std::move(tensor))) {}

  explicit operator bool() const { return constant || value || parts; }
  mlir::RankedTensorType type() const;
  llvm::ArrayRef<int64_t> shape() const;
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t dim(int64_t d) const { return shape()[d]; }
  mlir::Type element() const { return type().getElementType(); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(element()); }
};

/// An operand of an elementwise op: a value, or a number of the other operand's
/// element type.
struct Operand {
  Operand(Val value) : value(std::move(value)) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Operand(Number number) : number(static_cast<double>(number)) {}

  Val value;
  std::optional<double> number;
};

/// Whether `v` is a constant in uniform layout that is 0 everywhere.
bool isZero(const Val &v);

inline std::string describe(const Val &v) { return describe(v.type()); }
/// {first, .., end - 1}.
Shape iotaDims(int64_t end, int64_t first = 0);
/// The concatenation of shapes.
Shape joinShapes(std::initializer_list<llvm::ArrayRef<int64_t>> parts);
/// `shape` with the dimensions from `axis` on merged into one.
Shape mergedFrom(llvm::ArrayRef<int64_t> shape, int64_t axis);
/// {1, .., `size`, .., 1} with `size` in dimension `dim`.
Shape unitShape(int64_t rank, int64_t dim, int64_t size);
/// The permutation from [N, C, d..] to [N, d.., C].
Shape channelsLast(int64_t rank);
/// The role of the argument that `value` is; "" for other values.
llvm::StringRef roleOf(mlir::Value value);

class Emitter {
public:
  Emitter(mlir::OpBuilder builder)
      : builder(builder), loc(builder.getUnknownLoc()) {}

  mlir::OpBuilder builder;
  mlir::Location loc; ///< the node being converted

  /// Notes why the current node cannot be converted and returns the null value.
  /// Later failures do not replace the first one.
  Val fail(const llvm::Twine &why);
  /// The message is that of llvm::formatv; see `formatted` in Options.h.
  template <typename... Args>
  Val fail(const char *format, const Args &...args) {
    return fail(llvm::Twine(formatted(format, args...)));
  }
  bool failed() const { return !error.empty(); }
  std::string error;

  /// The value of each buffer (an argument) after a training step.
  llvm::MapVector<mlir::BlockArgument, mlir::Value> updates;

  /// State of dropout (Dropout.h): the seed, and the key of the last dropout,
  /// which is null before the first one.
  int64_t dropoutSeed = 0;
  mlir::Value dropoutKey;

  /// Converts `v` to an SSA value. Constants become `dpc.constant`; triangular
  /// ones become iota, compare and select.
  mlir::Value materialize(Val v);

  /// A rank-0 constant.
  Val scalar(double value, mlir::Type element);
  /// A constant with one value in every element.
  Val splat(double value, mlir::Type element, llvm::ArrayRef<int64_t> shape);
  /// The index of every position along `dim`, as i64.
  Val iota(llvm::ArrayRef<int64_t> shape, int64_t dim);

  mlir::Type i64() { return builder.getI64Type(); }
  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type f64() { return builder.getF64Type(); }
  mlir::Type boolean() { return builder.getI1Type(); }
  /// The type of statistics and losses of `x`: f64 for f64, otherwise f32.
  mlir::Type statisticsType(const Val &x);

  /// Creates an op and returns its first result.
  template <typename Op, typename... Args> Val make(Args &&...args) {
    return Val(
        Op::create(builder, loc, std::forward<Args>(args)...)->getResult(0));
  }

  // Elementwise ops; operands are broadcast as in numpy.
  Val unary(UnaryKind kind, Val x);
  Val binary(BinaryKind kind, Operand left, Operand right);
  Val compare(CompareKind kind, Operand left, Operand right);
  Val select(Val condition, Operand onTrue, Operand onFalse);
  Val convert(Val x, mlir::Type element);

  Val neg(Val x) { return unary(UnaryKind::neg, x); }
  Val abs(Val x) { return unary(UnaryKind::abs, x); }
  Val sign(Val x) { return unary(UnaryKind::sign, x); }
  Val exp(Val x) { return unary(UnaryKind::exp, x); }
  Val log(Val x) { return unary(UnaryKind::log, x); }
  Val sqrt(Val x) { return unary(UnaryKind::sqrt, x); }
  Val floor(Val x) { return unary(UnaryKind::floor, x); }
  Val relu(Val x) { return unary(UnaryKind::relu, x); }
  Val tanh(Val x) { return unary(UnaryKind::tanh, x); }
  Val sigmoid(Val x) { return unary(UnaryKind::sigmoid, x); }
  Val sin(Val x) { return unary(UnaryKind::sin, x); }
  Val cos(Val x) { return unary(UnaryKind::cos, x); }
  Val add(Operand a, Operand b) { return binary(BinaryKind::add, a, b); }
  Val sub(Operand a, Operand b) { return binary(BinaryKind::sub, a, b); }
  Val mul(Operand a, Operand b) { return binary(BinaryKind::mul, a, b); }
  Val div(Operand a, Operand b) { return binary(BinaryKind::div, a, b); }
  Val rem(Operand a, Operand b) { return binary(BinaryKind::rem, a, b); }
  Val pow(Operand a, Operand b) { return binary(BinaryKind::pow, a, b); }
  Val minimum(Operand a, Operand b) {
    return binary(BinaryKind::minimum, a, b);
  }
  Val maximum(Operand a, Operand b) {
    return binary(BinaryKind::maximum, a, b);
  }
  Val logicalAnd(Operand a, Operand b) {
    return binary(BinaryKind::logical_and, a, b);
  }
  Val logicalOr(Operand a, Operand b) {
    return binary(BinaryKind::logical_or, a, b);
  }
  Val logicalXor(Operand a, Operand b) {
    return binary(BinaryKind::logical_xor, a, b);
  }
  Val eq(Operand a, Operand b) { return compare(CompareKind::eq, a, b); }
  Val ne(Operand a, Operand b) { return compare(CompareKind::ne, a, b); }
  Val lt(Operand a, Operand b) { return compare(CompareKind::lt, a, b); }
  Val le(Operand a, Operand b) { return compare(CompareKind::le, a, b); }
  Val gt(Operand a, Operand b) { return compare(CompareKind::gt, a, b); }
  Val ge(Operand a, Operand b) { return compare(CompareKind::ge, a, b); }
  /// min(max(x, low), high).
  Val clamp(Val x, Operand low, Operand high) {
    return minimum(maximum(x, low), high);
  }
  /// Whether 0 <= x < `end`.
  Val inRange(Val x, Operand end) { return logicalAnd(ge(x, 0), lt(x, end)); }

  /// The nearest whole number of each float; halves round to even.
  Val round(Val x);

  // Movement.
  Val reshape(Val x, llvm::ArrayRef<int64_t> shape);
  Val transpose(Val x, llvm::ArrayRef<int64_t> perm);
  /// Operand dimension i becomes result dimension dims[i].
  Val broadcast(Val x, llvm::ArrayRef<int64_t> shape,
                llvm::ArrayRef<int64_t> dims);
  /// Numpy alignment: dimensions are matched from the last one.
  Val broadcastTo(Val x, llvm::ArrayRef<int64_t> shape);
  Val slice(Val x, llvm::ArrayRef<int64_t> offsets,
            llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> steps);
  /// The box [begin, begin + size) of one dimension.
  Val sliceDim(Val x, int64_t dim, int64_t begin, int64_t size,
               int64_t step = 1);
  Val concat(llvm::ArrayRef<Val> parts, int64_t dim);
  /// The given positions of one dimension, in this order; all must be valid.
  Val take(Val x, int64_t dim, llvm::ArrayRef<int64_t> positions);
  /// Exchanges dimensions `a` and `b`; the operation is its own inverse.
  Val swapDims(Val x, int64_t a, int64_t b);
  /// Exchanges dimension `dim` and the last one.
  Val swapWithLast(Val x, int64_t dim);
  /// Drops dimension `dim`, whose size is 1.
  Val dropDim(Val x, int64_t dim);
  /// Places `x` at offset `low` in a tensor of `shape` filled with zeros; see
  /// dpc.pad.
  Val pad(Val x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> shape,
          llvm::ArrayRef<int64_t> strides);

  /// Drops the reduced dimensions. `dims` must be ascending.
  Val reduce(ReduceKind kind, Val x, llvm::ArrayRef<int64_t> dims);
  /// The sum times 1/count.
  Val mean(Val x, llvm::ArrayRef<int64_t> dims);
  /// Restores as unit dimensions the `dims` that a reduction dropped.
  Val keepDims(Val reduced, Val original, llvm::ArrayRef<int64_t> dims);

  /// dpc.matmul; the shapes must satisfy its constraints.
  Val matmul(Val a, Val b, bool ta = false, bool tb = false);
  /// Softmax along the last dimension.
  Val softmax(Val x);
  /// The k greatest (`largest`) or smallest elements along the last dimension,
  /// best first, and their positions.
  std::pair<Val, Val> topk(Val x, int64_t k, bool largest);
  /// `topk` along dimension `dim`.
  std::pair<Val, Val> topk(Val x, int64_t dim, int64_t k, bool largest);
  /// Running sums along the last dimension.
  Val cumsum(Val x, bool exclusive, bool reverse);
  /// x - max - log(sum(exp(x - max))) along the last dimension.
  Val logSoftmax(Val x);
  /// log(sum(exp(x))) over `dims`, which are dropped.
  Val logSumExp(Val x, llvm::ArrayRef<int64_t> dims);
  /// The loss of each row of `scores` given its class. Computes in f64 for f64
  /// and in f32 otherwise. The loss is 0 where the label is `ignore`.
  Val crossEntropy(Val scores, Val labels, int64_t ignore);
  /// The rows of `table` [n, columns] at `ids`.
  Val embedding(Val table, Val ids);

  /// The shape of a numpy broadcast; notes a failure if there is none.
  std::optional<Shape> broadcastShape(llvm::ArrayRef<int64_t> a,
                                      llvm::ArrayRef<int64_t> b);

private:
  /// Emits `v` in `shape`; uniform constants are created in that shape.
  mlir::Value expanded(Val v, llvm::ArrayRef<int64_t> shape);
  mlir::Value emitConstant(const ConstTensor &tensor);
  mlir::Value emitTriangle(const ConstTensor &tensor);
  bool sameElement(Val a, Val b);
  /// The values of two operands, of which at most one is a number.
  std::pair<Val, Val> valuesOf(Operand a, Operand b);
  /// Whether x holds booleans if `booleans` is set; else whether it holds
  /// floats or, if `integers` is set, numbers. Notes a failure if not.
  bool accepts(Val x, bool integers, bool booleans);

  llvm::DenseMap<const ConstTensor *,
                 std::pair<std::shared_ptr<const ConstTensor>, mlir::Value>>
      materialized;
};

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_EMITTER_H
