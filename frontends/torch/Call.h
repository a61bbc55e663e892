//===- Call.h - Conversion context of one ATen call -------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_TORCH_CALL_H
#define DPC_FRONTENDS_TORCH_CALL_H

#include "frontends/emit/Handler.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

class Call;

/// The converter of one target.
struct Operator {
  /// Arguments as in ATen's schema, with defaults but without types: "self,
  /// other, alpha=1". An argument that a node omits has its default; an
  /// argument that is not listed is an error. "*" accepts any arguments.
  llvm::StringRef signature;
  Handler<Call> convert;
};

/// Converters by target without "aten.": "add.Tensor". An in-place form
/// (add_.Tensor) has the target of its pure form.
using OperatorTable = llvm::StringMap<Operator>;

/// Values of the graph by name.
using Values = llvm::StringMap<Val>;

/// The MLIR type of a ScalarType of the schema; null if it is unsupported.
mlir::Type elementOf(int64_t dtype, mlir::MLIRContext *context);
/// The schema's name of a ScalarType: "FLOAT", ..
std::string dtypeText(int64_t dtype);

/// The view that an operator's converter has of its node: arguments by name,
/// and results. Accessors note a failure and return null or a default if the
/// node lacks the requested item, so callers need not check.
class Call {
public:
  Call(Emitter &emit, const Graph &graph, const Node &node,
       llvm::StringRef signature, const Values &values)
      : emit(emit), graph(graph), node(node), results(node.outputs.size()),
        signature(signature), values(values) {}

  Emitter &emit;
  const Graph &graph;
  const Node &node;
  llvm::SmallVector<Val> results;
  /// Whether the model has a loss, so that gradients matter.
  bool trains = false;

  /// Fails unless the signature lists all arguments of the node.
  void checkArguments();

  template <typename... Args> Val fail(const Args &...args) {
    return emit.fail(args...);
  }
  mlir::MLIRContext *context() const { return emit.builder.getContext(); }
  /// The target without "aten.".
  llvm::StringRef target() const;

  /// Whether an argument is present and not None.
  bool has(llvm::StringRef name);
  /// A tensor argument that must be present.
  Val tensor(llvm::StringRef name);
  /// A tensor, or a number as a constant of rank 0 (f64, i64 or i1).
  Val operand(llvm::StringRef name);
  /// `operand` in the element type of the result.
  Val asResult(llvm::StringRef name);
  /// The argument at position `i` of the signature: `tensor` for a converter
  /// that takes a Call, `asResult` for one that takes an Emitter.
  template <typename First> Val required(size_t i) {
    llvm::SmallVector<llvm::StringRef> entries;
    signature.split(entries, ", ");
    llvm::StringRef name = entries[i].split('=').first;
    return std::is_same_v<First, Call> ? tensor(name) : asResult(name);
  }
  /// `operand` by position among the node's arguments.
  Val operandAt(size_t i);
  /// Whether `operand` is a number or has rank 0, so that it does not widen
  /// other types.
  bool isWeak(llvm::StringRef name);
  llvm::SmallVector<Val> tensors(llvm::StringRef name);
  int64_t integer(llvm::StringRef name);
  Shape ints(llvm::StringRef name);
  /// `ints` with `count` entries; a single entry is repeated.
  Shape ints(llvm::StringRef name, size_t count);
  double number(llvm::StringRef name);
  bool flag(llvm::StringRef name) { return integer(name) != 0; }
  std::string text(llvm::StringRef name);
  /// The argument "dtype", or `fallback`.
  mlir::Type dtype(mlir::Type fallback);

  /// Normalizes `dim`; negative values count from the end. Fails if it is out
  /// of range.
  int64_t dim(int64_t value, int64_t rank);
  int64_t dimOf(llvm::StringRef name, int64_t rank) {
    return dim(integer(name), rank);
  }
  /// Distinct dimensions in ascending order; all dimensions if the argument is
  /// empty.
  Shape dims(llvm::StringRef name, int64_t rank);

  /// The element type of result `i` in the file; null after a failure.
  mlir::Type resultElement(int64_t i = 0);
  /// Whether a node may read result `i`.
  bool wants(int64_t i) const {
    return i < static_cast<int64_t>(results.size()) && !node.outputs[i].empty();
  }
  void out(int64_t i, Val value) {
    if (i < static_cast<int64_t>(results.size()))
      results[i] = std::move(value);
  }
  void out(Val value) { out(0, std::move(value)); }
  /// Sets the parts of a list as the result.
  void outList(llvm::ArrayRef<Val> parts);

private:
  /// The argument, or null if the node omits it.
  const Argument *find(llvm::StringRef name) const;
  /// The signature's default of an argument that the node omits.
  llvm::StringRef defaultOf(llvm::StringRef name);
  Val lookup(llvm::StringRef name);
  Val valueOf(const Argument &argument, llvm::StringRef name);
  int64_t valueOf(const SymInt &integer, llvm::StringRef argument);

  llvm::StringRef signature;
  const Values &values;
};

/// The common type of two operands by ATen's rules. A weak operand widens the
/// other operand only to a different kind (boolean, integer, float).
mlir::Type commonType(Val a, bool isWeakA, Val b, bool isWeakB);

/// Whether gradients flow from `x` into a parameter.
bool reachesParameter(const Val &x);

/// Stops the gradient of `x`; returns `x` itself if it has no gradient.
Val withoutGradient(Emitter &emit, Val x);

// Each function registers the converters of one file of ops/.
void addComposed(OperatorTable &table);
void addConstructors(OperatorTable &table);
void addContractions(OperatorTable &table);
void addElementwise(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addMovement(OperatorTable &table);
void addRows(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addSymbolic(OperatorTable &table);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_CALL_H
