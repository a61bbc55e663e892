//===- Call.h - One ATen call being converted ------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_TORCH_CALL_H
#define DPC_FRONTENDS_TORCH_CALL_H

#include "frontends/emit/Emitter.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

class Call;

/// How one target is converted.
struct Operator {
  /// Arguments as ATen's schema has them, defaults included, without their
  /// types: "self, other, alpha=1". What a node leaves out has its default;
  /// an argument that is not listed refuses the node. "*": any arguments.
  llvm::StringRef signature;
  void (*convert)(Call &);
};

/// Operators by target without "aten.": "add.Tensor". The target of a writing
/// form (add_.Tensor) is that of its pure form.
using OperatorTable = llvm::StringMap<Operator>;

/// Values of the graph by name.
using Values = llvm::StringMap<Val>;

/// The MLIR type of a ScalarType of the schema, or null when unsupported.
mlir::Type elementOf(int64_t dtype, mlir::MLIRContext *context);
/// "FLOAT", ..: how the schema calls it.
std::string dtypeText(int64_t dtype);

/// What an operator sees of its node: arguments by name, and where results
/// go. Accessors note a failure and return null or a default when the node
/// lacks what was asked for; the caller need not check.
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

  /// Fails unless the node's arguments are those of the signature.
  void checkArguments();

  Val fail(const llvm::Twine &why) { return emit.fail(why); }
  mlir::MLIRContext *context() const { return emit.builder.getContext(); }
  /// The target without "aten.".
  llvm::StringRef target() const;

  /// Whether an argument is given and not None.
  bool has(llvm::StringRef name);
  /// A tensor that must be given.
  Val tensor(llvm::StringRef name);
  /// A tensor, or a number as a constant of rank 0 (f64, i64 or i1).
  Val operand(llvm::StringRef name);
  /// `operand` by position among the node's arguments.
  Val operandAt(size_t i);
  /// Whether `operand` is a number or of rank 0: it does not widen others.
  bool isWeak(llvm::StringRef name);
  llvm::SmallVector<Val> tensors(llvm::StringRef name);
  int64_t integer(llvm::StringRef name);
  Shape ints(llvm::StringRef name);
  /// `ints` of `count` entries; one entry stands for all.
  Shape ints(llvm::StringRef name, size_t count);
  double number(llvm::StringRef name);
  bool flag(llvm::StringRef name) { return integer(name) != 0; }
  std::string text(llvm::StringRef name);
  /// Argument "dtype", or `fallback`.
  mlir::Type dtype(mlir::Type fallback);

  /// `dim` counted from the end when negative; fails when out of range.
  int64_t dim(int64_t value, int64_t rank);
  int64_t dimOf(llvm::StringRef name, int64_t rank) {
    return dim(integer(name), rank);
  }
  /// Distinct dimensions in ascending order; all when none are named.
  Shape dims(llvm::StringRef name, int64_t rank);

  /// The element type that the file says result `i` has; null after a failure.
  mlir::Type resultElement(int64_t i = 0);
  /// Whether anything may read result `i`.
  bool wants(int64_t i) const {
    return i < static_cast<int64_t>(results.size()) && !node.outputs[i].empty();
  }
  void out(int64_t i, Val value) {
    if (i < static_cast<int64_t>(results.size()))
      results[i] = std::move(value);
  }
  void out(Val value) { out(0, std::move(value)); }
  /// The parts of a list.
  void outList(llvm::ArrayRef<Val> parts);

private:
  /// The argument, or null when the node leaves it out.
  const Argument *find(llvm::StringRef name) const;
  /// What the signature says about an argument that is left out.
  llvm::StringRef defaultOf(llvm::StringRef name);
  Val lookup(llvm::StringRef name);
  Val valueOf(const Argument &argument, llvm::StringRef name);
  int64_t valueOf(const SymInt &integer, llvm::StringRef argument);

  llvm::StringRef signature;
  const Values &values;
};

/// The type that two operands have in common by ATen's rules; a weak one
/// widens the other only to another kind (boolean, integer, float).
mlir::Type commonType(Val a, bool isWeakA, Val b, bool isWeakB);

/// Whether gradients would flow from `x` into a parameter.
bool reachesParameter(const Val &x);

/// `x`, through which no gradient passes; `x` itself where none would come.
Val withoutGradient(Emitter &emit, Val x);

// One per file of ops/.
void addComposed(OperatorTable &table);
void addConstructors(OperatorTable &table);
void addContractions(OperatorTable &table);
void addElementwise(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addLosses(OperatorTable &table);
void addMovement(OperatorTable &table);
void addResample(OperatorTable &table);
void addRows(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addSymbolic(OperatorTable &table);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_CALL_H
