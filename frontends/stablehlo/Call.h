//===- Call.h - One operation being converted ------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_STABLEHLO_CALL_H
#define DPC_FRONTENDS_STABLEHLO_CALL_H

#include "frontends/emit/Emitter.h"
#include "frontends/stablehlo/AttrText.h"

#include <functional>

namespace dpc::frontend::hlo {

/// Values of a function by the value of the file.
using Values = llvm::DenseMap<mlir::Value, Val>;

/// Converts the ops of a region, whose arguments are `operands`, and returns
/// what its terminator names. Null after a failure.
using RegionRunner = std::function<std::optional<llvm::SmallVector<Val>>(
    mlir::Region &, llvm::ArrayRef<Val>)>;

/// A value put together of pieces along dimension 0, in their order. Loops over
/// layers write and read their stacks layer by layer: what reads a piece need
/// not read the stack.
using Pieces = llvm::SmallVector<Val>;

/// What an operator sees of its op. Accessors note a failure and return null
/// or a default when the op lacks what was asked for; the caller need not
/// check.
class Call {
public:
  Call(Emitter &emit, mlir::Operation *op, Values &values,
       const RegionRunner &runRegion,
       llvm::DenseMap<mlir::Value, Pieces> &pieces)
      : emit(emit), op(op), values(values), runRegion(runRegion),
        pieces(pieces) {}

  Emitter &emit;
  mlir::Operation *op;
  Values &values;
  const RegionRunner &runRegion;
  llvm::DenseMap<mlir::Value, Pieces> &pieces;

  Val fail(const llvm::Twine &why) { return emit.fail(why); }
  mlir::MLIRContext *context() const { return op->getContext(); }
  /// The name without its dialect: "add".
  llvm::StringRef name() const { return op->getName().stripDialect(); }

  unsigned operands() const { return op->getNumOperands(); }
  /// Operand `i`, which must be there and known.
  Val in(unsigned i);
  /// The elements of an operand that must be known.
  std::optional<Shape> knownInts(unsigned i);
  /// The type that the file gives result `i`; null (noted) when it is no
  /// tensor of static shape and supported elements.
  mlir::RankedTensorType resultType(unsigned i = 0);
  void out(unsigned i, Val value) {
    if (i < op->getNumResults())
      values[op->getResult(i)] = std::move(value);
    else
      fail("has fewer results than it makes");
  }
  void out(Val value) { out(0, std::move(value)); }

  /// A list of integers: an array, or elements. `fallback` when it is absent.
  Shape ints(llvm::StringRef name, const Shape &fallback);
  Shape ints(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t fallback);
  bool flag(llvm::StringRef name);
  llvm::StringRef text(llvm::StringRef name);
  /// The fields of an attribute such as #stablehlo.dot<..>; absent ones are
  /// empty lists.
  llvm::StringMap<Shape> fields(llvm::StringRef name);
  /// The value of an attribute such as #stablehlo<comparison_direction LT>.
  llvm::StringRef keyword(llvm::StringRef name);

private:
  mlir::Attribute attribute(llvm::StringRef name) const;
};

/// Operators by full name: "stablehlo.add".
using OperatorTable = llvm::StringMap<void (*)(Call &)>;

/// The tensor that an attribute holds, or failure (noted).
Val constantOf(Emitter &e, mlir::Attribute attribute);
/// Whether tensors of these elements are supported.
bool isSupported(mlir::Type element);

/// How a region of two arguments combines them.
enum class Combiner { add, mul, max, min, logicalAnd, logicalOr, second };
/// Nullopt when it is none of these.
std::optional<Combiner> combinerOf(mlir::Region &region);
/// "add, mul, ..": what combinerOf accepts.
llvm::StringRef combinersText();
/// Two values combined as `kind` says.
Val combined(Emitter &e, Combiner kind, Val a, Val b);
/// All elements along `dims` combined; dimensions are dropped.
Val reducedBy(Emitter &e, Combiner kind, Val x, llvm::ArrayRef<int64_t> dims);
/// Whether combining with `x` changes nothing.
bool isNeutral(Combiner kind, const Val &x);

/// `x` in a tensor of `shape` filled with zeros; see dpc.pad.
Val padded(Emitter &e, Val x, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);
/// StableHLO's pad: `value` in front, behind and between; negative ones cut.
Val padded(Emitter &e, Val x, Val value, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> interior);
/// Counts along `dim` in elements of `element`.
Val counting(Emitter &e, llvm::ArrayRef<int64_t> shape, int64_t dim,
             mlir::Type element);
/// The box of `x` at offsets that data may decide, moved to lie inside.
Val dynamicSlice(Call &c, Val x, llvm::ArrayRef<Val> starts,
                 llvm::ArrayRef<int64_t> sizes);
/// `x` with the box at `starts` replaced.
Val dynamicUpdate(Call &c, Val x, Val update, llvm::ArrayRef<Val> starts);

// One per file of ops/.
void addElementwise(OperatorTable &table);
void addMovement(OperatorTable &table);
void addReductions(OperatorTable &table);
void addContractions(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addGather(OperatorTable &table);
void addScatter(OperatorTable &table);
void addControl(OperatorTable &table);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_CALL_H
