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

#include "mlir/IR/Builders.h"

#include "llvm/ADT/MapVector.h"

#include <memory>
#include <string>

namespace dpc::frontend {

/// A value of the model: known at import time, computed by the module, or a
/// sequence of such values (see ops/Sequences.cpp).
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

/// Whether `v` is a constant in uniform layout that is 0 everywhere.
bool isZero(const Val &v);

/// The type as messages show it, such as "8x32xf32".
std::string describe(mlir::RankedTensorType type);
std::string describe(llvm::ArrayRef<int64_t> shape);
/// {0, 1, .., n - 1}.
Shape iotaDims(int64_t n);

class Emitter {
public:
  Emitter(mlir::OpBuilder builder)
      : builder(builder), loc(builder.getUnknownLoc()) {}

  mlir::OpBuilder builder;
  mlir::Location loc; ///< the node being converted

  /// Notes why the current node cannot be converted and returns the null value.
  /// Later failures do not replace the first one.
  Val fail(const llvm::Twine &why);
  bool failed() const { return !error.empty(); }
  std::string error;

  /// The value that each buffer (argument) has after a training step.
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
  /// The index along `dim` at every position, i64.
  Val iota(llvm::ArrayRef<int64_t> shape, int64_t dim);

  // Elementwise ops; operands are broadcast as in numpy.
  Val unary(UnaryKind kind, Val x);
  Val binary(BinaryKind kind, Val a, Val b);
  Val compare(CompareKind kind, Val a, Val b);
  Val select(Val condition, Val onTrue, Val onFalse);
  Val convert(Val x, mlir::Type element);
  /// The binary op with a constant scalar of x's element type.
  Val binary(BinaryKind kind, Val x, double scalar);

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
  /// Running sums along the last dimension.
  Val cumsum(Val x, bool exclusive, bool reverse);
  /// x - max - log(sum(exp(x - max))) along the last dimension.
  Val logSoftmax(Val x);
  /// The loss of each row of `scores` given its class. Computes in f64 for f64
  /// and in f32 otherwise. The loss is 0 where the label is `ignore`.
  Val crossEntropy(Val scores, Val labels, int64_t ignore);
  /// Rows of `table` [n, columns].
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
  /// Whether x holds booleans (`booleans`), else floats, or also integers
  /// (`integers`).
  bool accepts(Val x, bool integers, bool booleans);

  llvm::DenseMap<const ConstTensor *,
                 std::pair<std::shared_ptr<const ConstTensor>, mlir::Value>>
      materialized;
};

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_EMITTER_H
