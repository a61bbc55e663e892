//===- Call.h - Conversion context of one ATen call -------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Handler.h"
#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

class Call;

struct Operator {
  /// Arguments in ATen's notation without types: "self, other, alpha=1". An
  /// argument that a node omits has its default. A node with an argument that
  /// is not listed is refused, unless the signature is "*".
  llvm::StringRef signature;
  Handler<Call> convert;
};

/// Converters by target, without "aten." ("add.Tensor"). In-place forms
/// (add_.Tensor) use the converter of their pure form.
using OperatorTable = llvm::StringMap<Operator>;

using Values = llvm::StringMap<Val>;

/// Returns the MLIR type of a ScalarType of the schema; null if unsupported.
mlir::Type elementOf(int64_t dtype, mlir::MLIRContext *context);
/// Returns the schema's name of a ScalarType, such as "FLOAT".
std::string dtypeText(int64_t dtype);

/// A converter's view of its node. If the node lacks a requested item,
/// accessors note a failure and return null or a default, so that callers need
/// not check.
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
  /// Whether the operands are the parts of complex ones (Complex.h).
  bool ofComplexPart = false;
  /// Whether the model has a loss, and gradients therefore matter.
  bool trains = false;

  /// Notes a failure unless the signature lists all arguments of the node.
  void checkArguments();

  template <typename... Args> Val fail(const Args &...args) {
    return emit.fail(args...);
  }
  mlir::MLIRContext *context() const { return emit.builder.getContext(); }
  /// Returns the target without "aten.".
  llvm::StringRef target() const;

  bool has(llvm::StringRef name);
  /// Returns a tensor argument, which must be present.
  Val tensor(llvm::StringRef name);
  /// Returns a tensor, or converts a number to a constant (f64, i64 or i1).
  Val operand(llvm::StringRef name);
  /// Returns `operand(name)`, converted to the element type of the result.
  Val asResult(llvm::StringRef name);
  /// Returns argument `i` of the signature: `tensor` if the converter takes a
  /// Call, `asResult` if it takes an Emitter.
  template <typename First> Val required(size_t i) {
    llvm::SmallVector<llvm::StringRef> entries;
    signature.split(entries, ", ");
    llvm::StringRef name = entries[i].split('=').first;
    return std::is_same_v<First, Call> ? tensor(name) : asResult(name);
  }
  /// Returns the `operand` at position `i` of the node's arguments.
  Val operandAt(size_t i);
  /// Whether the argument is a number or has rank 0, so that it does not widen
  /// types of the same kind.
  bool isWeak(llvm::StringRef name);
  llvm::SmallVector<Val> tensors(llvm::StringRef name);
  int64_t integer(llvm::StringRef name);
  Shape ints(llvm::StringRef name);
  /// Returns `count` integers; a single integer is repeated.
  Shape ints(llvm::StringRef name, size_t count);
  double number(llvm::StringRef name);
  bool flag(llvm::StringRef name) { return integer(name) != 0; }
  std::string text(llvm::StringRef name);
  /// Returns the argument "dtype", or `fallback` if it is absent.
  mlir::Type dtype(mlir::Type fallback);

  /// Returns `value`, counted from the end if negative; fails if out of range.
  int64_t dim(int64_t value, int64_t rank);
  int64_t dimOf(llvm::StringRef name, int64_t rank) {
    return dim(integer(name), rank);
  }
  /// Returns distinct dimensions in ascending order; all dimensions if the
  /// argument is absent or empty.
  Shape dims(llvm::StringRef name, int64_t rank);

  /// Returns the element type of result `i` in the file; null after a failure.
  mlir::Type resultElement(int64_t i = 0);
  /// Whether result `i` has a name, so that nodes can read it.
  bool wants(int64_t i) const {
    return i < static_cast<int64_t>(results.size()) && !node.outputs[i].empty();
  }
  void out(int64_t i, Val value) {
    if (i < static_cast<int64_t>(results.size()))
      results[i] = std::move(value);
  }
  void out(Val value) { out(0, std::move(value)); }
  void outList(llvm::ArrayRef<Val> parts);
  /// Changes a tensor argument, as a batch norm does its running statistics.
  void write(llvm::StringRef name, Val value);
  /// The changed values with their names in the graph.
  llvm::SmallVector<std::pair<std::string, Val>> written;

private:
  const Argument *find(llvm::StringRef name) const;
  /// Returns the default of an argument that the node omits.
  llvm::StringRef defaultOf(llvm::StringRef name);
  Val lookup(llvm::StringRef name);
  Val valueOf(const Argument &argument, llvm::StringRef name);
  int64_t valueOf(const SymInt &integer, llvm::StringRef argument);

  llvm::StringRef signature;
  const Values &values;
};

/// Returns the common type of two operands by ATen's rules. A weak operand
/// counts only if its kind is higher (boolean < integer < float).
mlir::Type commonType(Val a, bool isWeakA, Val b, bool isWeakB);

/// Whether gradients flow from `x` to a parameter.
bool reachesParameter(const Val &x);

/// Returns `x` without its gradient.
Val withoutGradient(Emitter &emit, Val x);

// One function per file of ops/ registers its converters.
/// Adds other names of operators that the table has.
void addAliases(OperatorTable &table);
void addComplex(OperatorTable &table);
void addComposed(OperatorTable &table);
void addConstructors(OperatorTable &table);
void addContractions(OperatorTable &table);
void addElementwise(OperatorTable &table);
void addIndexing(OperatorTable &table);
void addLosses(OperatorTable &table);
void addMovement(OperatorTable &table);
void addRandom(OperatorTable &table);
void addRows(OperatorTable &table);
void addSampling(OperatorTable &table);
void addScatter(OperatorTable &table);
void addSpatial(OperatorTable &table);
void addSpectral(OperatorTable &table);
void addSymbolic(OperatorTable &table);
void addWindows(OperatorTable &table);

} // namespace dpc::frontend::pt2
