//===- Call.h - Conversion context of one operation -------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Handler.h"
#include "frontends/stablehlo/AttrText.h"

namespace dpc::frontend::hlo {

/// The converted value of each SSA value in the file.
using Values = llvm::DenseMap<mlir::Value, Val>;

/// Converts a region with `operands` as its arguments and returns the values of
/// its terminator, or nullopt after a failure.
using RegionRunner = std::function<std::optional<llvm::SmallVector<Val>>(
    mlir::Region &, llvm::ArrayRef<Val>)>;

/// The parts of a stack. A stack is a value that was concatenated along
/// dimension 0. A loop over layers reads and writes stacks one layer at a time.
/// If the parts are known, a read of one layer depends on that layer only.
using Parts = llvm::SmallVector<Val>;

/// A converter's view of its op. If the op lacks a requested item, accessors
/// note a failure and return null or a default, so that callers need not check.
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
  /// Returns the op's name without its dialect, for example "add".
  llvm::StringRef name() const { return op->getName().stripDialect(); }

  unsigned operands() const { return op->getNumOperands(); }
  /// Returns operand `i`, which must exist.
  Val in(unsigned i);
  template <typename First> Val required(unsigned i) { return in(i); }
  /// Returns the elements of operand `i`, which must be known at import time.
  std::optional<Shape> knownInts(unsigned i);
  /// Returns the type of result `i` in the file. Notes a failure unless it is a
  /// tensor of static shape and supported element type.
  mlir::RankedTensorType resultType(unsigned i = 0);
  void out(unsigned i, Val value) {
    if (i < op->getNumResults())
      values[op->getResult(i)] = std::move(value);
    else
      fail("has fewer results than expected");
  }
  void out(Val value) { out(0, std::move(value)); }

  /// Returns the integers of an array or elements attribute, or `fallback` if
  /// the attribute is absent.
  Shape ints(llvm::StringRef name, const Shape &fallback);
  Shape ints(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t fallback);
  bool flag(llvm::StringRef name);
  llvm::StringRef text(llvm::StringRef name);
  /// Returns the fields of an attribute such as #stablehlo.dot<..>. An absent
  /// field is an empty list.
  llvm::StringMap<Shape> fields(llvm::StringRef name);
  /// Returns "LT" for an attribute such as #stablehlo<comparison_direction LT>.
  llvm::StringRef keyword(llvm::StringRef name);

private:
  mlir::Attribute attribute(llvm::StringRef name) const;
};

/// Converters by the op's full name, such as "stablehlo.add".
using OperatorTable = llvm::StringMap<Handler<Call>>;

/// Returns the tensor in `attribute`, or notes a failure.
Val constantOf(Emitter &e, mlir::Attribute attribute);
bool isSupported(mlir::Type element);

/// How a region combines its two arguments; `second` returns the second one.
enum class Combiner { add, mul, max, min, logicalAnd, logicalOr, second };
/// Returns how a region combines its arguments, or nullopt if unsupported.
std::optional<Combiner> combinerOf(mlir::Region &region);
/// Returns the names of the supported combiners, for messages.
llvm::StringRef combinersText();
Val combined(Emitter &e, Combiner kind, Val a, Val b);
/// Combines the elements along `dims` and drops these dimensions.
Val reducedBy(Emitter &e, Combiner kind, Val x, llvm::ArrayRef<int64_t> dims);
/// Whether `x` is the neutral element of `kind`.
bool isNeutral(Combiner kind, const Val &x);

/// Places `x` at offset `low` in zeros of `shape`; see dpc.pad.
Val padded(Emitter &e, Val x, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);
/// Implements stablehlo.pad: adds `value` before, after and between elements.
/// Negative pads crop.
Val padded(Emitter &e, Val x, Val value, llvm::ArrayRef<int64_t> low,
           llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> interior);
/// Returns the index along `dim` at every position, as `element`.
Val counting(Emitter &e, llvm::ArrayRef<int64_t> shape, int64_t dim,
             mlir::Type element);
/// Slices `x` at offsets that can be runtime values. An offset that is too
/// large or negative is clamped.
Val dynamicSlice(Call &c, Val x, llvm::ArrayRef<Val> starts,
                 llvm::ArrayRef<int64_t> sizes);
/// Returns `x` with the part at offsets `starts` replaced with `update`.
Val dynamicUpdate(Call &c, Val x, Val update, llvm::ArrayRef<Val> starts);

// One function per file of ops/ registers its converters.
void addElementwise(OperatorTable &table);
void addMovement(OperatorTable &table);
void addReductions(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addControl(OperatorTable &table);

} // namespace dpc::frontend::hlo
