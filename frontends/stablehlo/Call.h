//===- Call.h - Conversion context of one operation -------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_STABLEHLO_CALL_H
#define DPC_FRONTENDS_STABLEHLO_CALL_H

#include "frontends/emit/Handler.h"
#include "frontends/stablehlo/AttrText.h"

namespace dpc::frontend::hlo {

/// The converted value of each value in the file.
using Values = llvm::DenseMap<mlir::Value, Val>;

/// Converts the ops of a region with the arguments `operands` and returns the
/// values of its terminator; nullopt after a failure.
using RegionRunner = std::function<std::optional<llvm::SmallVector<Val>>(
    mlir::Region &, llvm::ArrayRef<Val>)>;

/// The values whose concatenation along dimension 0 is a value. Loops over
/// layers write and read stacks of tensors layer by layer. If the parts are
/// known, a read of one layer does not depend on the whole stack.
using Parts = llvm::SmallVector<Val>;

/// The view that an operator's converter has of its op. Accessors note a
/// failure and return null or a default if the op lacks the requested item, so
/// callers need not check.
class Call {
public:
  Call(Emitter &emit, mlir::Operation *op, Values &values,
       const RegionRunner &runRegion,
       llvm::DenseMap<mlir::Value, Parts> &stackParts)
      : emit(emit), op(op), values(values), runRegion(runRegion),
        stackParts(stackParts) {}

  Emitter &emit;
  mlir::Operation *op;
  Values &values;
  const RegionRunner &runRegion;
  llvm::DenseMap<mlir::Value, Parts> &stackParts;

  template <typename... Args> Val fail(const Args &...args) {
    return emit.fail(args...);
  }
  mlir::MLIRContext *context() const { return op->getContext(); }
  /// The name without its dialect: "add".
  llvm::StringRef name() const { return op->getName().stripDialect(); }

  unsigned operands() const { return op->getNumOperands(); }
  /// Operand `i`, which must exist and have a known value.
  Val in(unsigned i);
  template <typename First> Val required(unsigned i) { return in(i); }
  /// The elements of an operand that must be known at import time.
  std::optional<Shape> knownInts(unsigned i);
  /// The type of result `i` in the file. Returns null and notes a failure
  /// unless it is a tensor of static shape with supported elements.
  mlir::RankedTensorType resultType(unsigned i = 0);
  void out(unsigned i, Val value) {
    if (i < op->getNumResults())
      values[op->getResult(i)] = std::move(value);
    else
      fail("has fewer results than expected");
  }
  void out(Val value) { out(0, std::move(value)); }

  /// A list of integers from an array or from elements; `fallback` if it is
  /// absent.
  Shape ints(llvm::StringRef name, const Shape &fallback);
  Shape ints(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t fallback);
  bool flag(llvm::StringRef name);
  llvm::StringRef text(llvm::StringRef name);
  /// The fields of an attribute such as #stablehlo.dot<..>; absent fields are
  /// empty lists.
  llvm::StringMap<Shape> fields(llvm::StringRef name);
  /// The value of an attribute such as #stablehlo<comparison_direction LT>.
  llvm::StringRef keyword(llvm::StringRef name);

private:
  mlir::Attribute attribute(llvm::StringRef name) const;
};

/// Converters by full op name, such as "stablehlo.add".
using OperatorTable = llvm::StringMap<Handler<Call>>;

/// The tensor of an attribute; notes a failure if there is none.
Val constantOf(Emitter &e, mlir::Attribute attribute);
/// Whether tensors of this element type are supported.
bool isSupported(mlir::Type element);

/// The ways in which a region of two arguments can combine them.
enum class Combiner { add, mul, max, min, logicalAnd, logicalOr, second };
/// Recognizes the combiner; nullopt for all other regions.
std::optional<Combiner> combinerOf(mlir::Region &region);
/// The names of the combiners that combinerOf accepts, for messages.
llvm::StringRef combinersText();
/// Combines two values.
Val combined(Emitter &e, Combiner kind, Val a, Val b);
/// Combines all elements along `dims` and drops these dimensions.
Val reducedBy(Emitter &e, Combiner kind, Val x, llvm::ArrayRef<int64_t> dims);
/// Whether `x` is the neutral element of the combiner.
bool isNeutral(Combiner kind, const Val &x);

/// Places `x` in a tensor of `shape` filled with zeros; see dpc.pad.
Val padded(Emitter &e, Val x, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);
/// StableHLO's pad: adds `value` before, after and between elements; negative
/// pads crop.
Val padded(Emitter &e, Val x, Val value, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> interior);
/// The index along `dim` in the type `element`.
Val counting(Emitter &e, llvm::ArrayRef<int64_t> shape, int64_t dim,
             mlir::Type element);
/// Slices `x` at offsets that can be runtime values; clamps them to the valid
/// range.
Val dynamicSlice(Call &c, Val x, llvm::ArrayRef<Val> starts,
                 llvm::ArrayRef<int64_t> sizes);
/// `x` with the box at `starts` replaced by `update`.
Val dynamicUpdate(Call &c, Val x, Val update, llvm::ArrayRef<Val> starts);

// Each function registers the converters of one file of ops/.
void addElementwise(OperatorTable &table);
void addMovement(OperatorTable &table);
void addReductions(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addControl(OperatorTable &table);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_CALL_H
