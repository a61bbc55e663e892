//===- Emitter.h - Builds or folds dpc ops ----------------------*- C++ -*-===//
//
// The Emitter evaluates an op at import time if its operands are known, and
// creates a dpc op otherwise, so each converter is written only once. A null
// value means that a failure was noted. Every method returns null if an operand
// is null, so converters need no checks between steps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/ConstTensor.h"
#include "frontends/emit/Options.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/MapVector.h"

#include <memory>
#include <string>

namespace dpc::frontend {

/// A value of the model: a constant, an SSA value of the module, or a sequence
/// of values (onnx/ops/Shapes.cpp).
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

/// An operand of an elementwise op: a value, or a number that is converted to
/// the element type of the other operand.
struct Operand {
  Operand(Val value) : value(std::move(value)) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Operand(Number number) : number(static_cast<double>(number)) {}

  Val value;
  std::optional<double> number;
};

/// Whether `v` is known to be 0 everywhere.
bool isZero(const Val &v);

inline std::string describe(const Val &v) { return describe(v.type()); }
/// {first, .., end - 1}.
Shape iotaDims(int64_t end, int64_t first = 0);
Shape joinShapes(std::initializer_list<llvm::ArrayRef<int64_t>> parts);
/// Returns `shape` with dimensions `axis` and later merged into one.
Shape mergedFrom(llvm::ArrayRef<int64_t> shape, int64_t axis);
/// Returns a shape that is `size` in dimension `dim` and 1 elsewhere.
Shape unitShape(int64_t rank, int64_t dim, int64_t size);
/// Returns the permutation from [N, C, d..] to [N, d.., C].
Shape channelsLast(int64_t rank);
/// Returns the role of an argument; "" for other values.
llvm::StringRef roleOf(mlir::Value value);

class Emitter {
public:
  Emitter(mlir::OpBuilder builder)
      : builder(builder), loc(builder.getUnknownLoc()) {}

  mlir::OpBuilder builder;
  mlir::Location loc; ///< location of the node that is being converted

  /// Notes why the current node cannot be converted, and returns the null
  /// value. Keeps the first failure if several are noted.
  Val fail(const llvm::Twine &why);
  /// Formats the message with `formatted` (Options.h).
  template <typename... Args>
  Val fail(const char *format, const Args &...args) {
    return fail(llvm::Twine(formatted(format, args...)));
  }
  bool failed() const { return !error.empty(); }
  std::string error;

  /// The next value of each buffer that the model updates.
  llvm::MapVector<mlir::BlockArgument, mlir::Value> updates;

  /// The seed of dropout (Dropout.h) and the key of the last dropout, which is
  /// null before the first dropout.
  int64_t dropoutSeed = 0;
  mlir::Value dropoutKey;

  /// Whether the model is imported as after .eval() (ImportOptions::evaluates),
  /// and whether this changed a dropout or a batch norm.
  bool evaluates = false;
  bool leftOutDropout = false, usedRunningStatistics = false;

  /// The modes that the file has dropouts and batch norms in.
  struct Modes {
    int64_t dropoutsOff = 0, runningStatistics = 0; ///< in evaluation mode
    int64_t dropoutsOn = 0, batchStatistics = 0;    ///< in training mode
  };
  Modes modes;

  /// Converts `v` to an SSA value: a constant becomes `dpc.constant`; a
  /// triangular constant becomes iota, compare and select.
  mlir::Value materialize(Val v);

  Val scalar(double value, mlir::Type element);
  Val splat(double value, mlir::Type element, llvm::ArrayRef<int64_t> shape);
  /// Returns the index along `dim` at every position, as i64.
  Val iota(llvm::ArrayRef<int64_t> shape, int64_t dim);

  mlir::Type i64() { return builder.getI64Type(); }
  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type f64() { return builder.getF64Type(); }
  mlir::Type boolean() { return builder.getI1Type(); }
  /// Returns the type of statistics and losses: f64 if `x` is f64, else f32.
  mlir::Type statisticsType(const Val &x);

  template <typename Op, typename... Args> Val make(Args &&...args) {
    return Val(
        Op::create(builder, loc, std::forward<Args>(args)...)->getResult(0));
  }

  // Elementwise ops broadcast their operands as numpy does.
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
  /// The operand of a maximum or minimum that gets the gradient where both are
  /// equal (attr::kTieGradient).
  enum class Ties : int64_t { First = 0, Second = 1 };
  /// A maximum or minimum.
  Val extremum(BinaryKind kind, Operand a, Operand b, Ties ties);
  /// No gradient passes at the bounds, as with torch.clamp.
  Val clamp(Val x, Operand low, Operand high) {
    Val above = extremum(BinaryKind::maximum, x, low, Ties::Second);
    return extremum(BinaryKind::minimum, above, high, Ties::Second);
  }
  /// Whether 0 <= x < `end`.
  Val inRange(Val x, Operand end) { return logicalAnd(ge(x, 0), lt(x, end)); }

  /// Rounds to the nearest integer, and to the even one on ties.
  Val round(Val x);

  Val reshape(Val x, llvm::ArrayRef<int64_t> shape);
  Val transpose(Val x, llvm::ArrayRef<int64_t> perm);
  /// Broadcasts `x` to `shape`: dimension i of `x` becomes dimension dims[i].
  Val broadcast(Val x, llvm::ArrayRef<int64_t> shape,
                llvm::ArrayRef<int64_t> dims);
  /// Broadcasts as numpy does: the last dimensions are aligned.
  Val broadcastTo(Val x, llvm::ArrayRef<int64_t> shape);
  Val slice(Val x, llvm::ArrayRef<int64_t> offsets,
            llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> steps);
  Val sliceDim(Val x, int64_t dim, int64_t begin, int64_t size,
               int64_t step = 1);
  Val concat(llvm::ArrayRef<Val> parts, int64_t dim);
  /// Selects `positions` of dimension `dim`; all must be valid.
  Val take(Val x, int64_t dim, llvm::ArrayRef<int64_t> positions);
  Val swapDims(Val x, int64_t a, int64_t b);
  Val swapWithLast(Val x, int64_t dim);
  /// Drops dimension `dim`, which must have size 1.
  Val dropDim(Val x, int64_t dim);
  /// Places `x` at offset `low` in zeros of `shape`; see dpc.pad.
  Val pad(Val x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> shape,
          llvm::ArrayRef<int64_t> strides);

  /// Reduces over `dims`, which must be ascending, and drops these dimensions.
  Val reduce(ReduceKind kind, Val x, llvm::ArrayRef<int64_t> dims);
  Val mean(Val x, llvm::ArrayRef<int64_t> dims);
  /// Restores the `dims` that a reduction dropped, with size 1.
  Val keepDims(Val reduced, Val original, llvm::ArrayRef<int64_t> dims);

  /// Emits dpc.matmul; the shapes must fit.
  Val matmul(Val a, Val b, bool ta = false, bool tb = false);
  /// Softmax along the last dimension.
  Val softmax(Val x);
  /// Returns the `k` greatest or smallest elements along the last dimension,
  /// best first, and their positions.
  std::pair<Val, Val> topk(Val x, int64_t k, bool largest);
  std::pair<Val, Val> topk(Val x, int64_t dim, int64_t k, bool largest);
  /// Computes running sums along the last dimension.
  Val cumsum(Val x, bool exclusive, bool reverse);
  /// Computes x - max - log(sum(exp(x - max))) along the last dimension.
  Val logSoftmax(Val x);
  /// Computes log(sum(exp(x))) over `dims` and drops them.
  Val logSumExp(Val x, llvm::ArrayRef<int64_t> dims);
  /// Returns the cross entropy of each row of `scores` with its label, or 0 if
  /// the label is `ignored`. Without `ignored`, every label must be a class.
  /// The type is f64 for f64 scores, otherwise f32.
  Val crossEntropy(Val scores, Val labels, std::optional<int64_t> ignored);
  /// Looks up rows `ids` of `table` [rows, columns].
  Val embedding(Val table, Val ids);

  /// Returns the shape to which `a` and `b` broadcast, or notes a failure.
  std::optional<Shape> broadcastShape(llvm::ArrayRef<int64_t> a,
                                      llvm::ArrayRef<int64_t> b);

private:
  /// Emits `v` broadcast to `shape`; creates uniform constants in `shape`.
  mlir::Value expanded(Val v, llvm::ArrayRef<int64_t> shape);
  mlir::Value emitConstant(const ConstTensor &tensor);
  mlir::Value emitTriangle(const ConstTensor &tensor);
  bool sameElement(Val a, Val b);
  /// Converts a number to the element type of the other operand.
  std::pair<Val, Val> valuesOf(Operand a, Operand b);
  /// Notes a failure and returns false if the element type is not accepted.
  /// Only booleans are accepted if `booleans` is set. Otherwise floats are
  /// accepted, and integers if `integers` is set.
  bool accepts(Val x, bool integers, bool booleans);

  llvm::DenseMap<const ConstTensor *,
                 std::pair<std::shared_ptr<const ConstTensor>, mlir::Value>>
      materialized;
};

} // namespace dpc::frontend
