//===- Program.h - An exported program --------------------------*- C++ -*-===//
//
// torch.export's schema (torch/_export/serde/schema.py, major version 8) as
// plain structures.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_PROGRAM_H
#define DPC_FRONTENDS_TORCH_PROGRAM_H

#include "frontends/torch/Archive.h"
#include "frontends/torch/Json.h"

#include "llvm/ADT/StringMap.h"

namespace dpc::frontend::pt2 {

/// An integer or size: a number, or the name of a value of the graph.
struct SymInt {
  std::string name; ///< "" if it is the number `value`
  int64_t value = 0;
};

/// A dimension as the file declares it: a number or an expression.
struct Size {
  std::string expression; ///< "" if it is the number `value`
  int64_t value = 0;

  /// The symbol if the expression is a single symbol, otherwise "".
  std::string symbol() const;
  /// Whether the size depends on data (symbols u0, u1, ..).
  bool dependsOnData() const;
};

struct TensorMeta {
  int64_t dtype = 0;
  std::vector<Size> sizes;
  std::vector<int64_t> strides; ///< -1: symbolic
  int64_t storageOffset = 0;
  bool requiresGrad = false;
};

struct Graph;

/// An argument of a node.
struct Argument {
  enum class Kind {
    None,
    Tensor,  ///< names[0]
    Tensors, ///< names; "" means None
    Int,     ///< ints[0]
    Ints,
    Float, ///< numbers[0]
    Floats,
    Bool, ///< ints[0]
    String,
    Dtype, ///< ints[0]
    Graph,
    Place, ///< device, layout, memory format: ignored
    Other, ///< text: the kind's name
  };
  Kind kind = Kind::None;
  std::vector<std::string> names;
  std::vector<SymInt> ints;
  std::vector<double> numbers;
  std::string text;
  std::shared_ptr<const pt2::Graph> graph;
};

struct Node {
  std::string target; ///< "aten.linear.default", "_operator.mul", ..
  std::string name;
  std::vector<std::pair<std::string, Argument>> inputs;
  /// The names of the results; "" for a result that is not a value.
  std::vector<std::string> outputs;
  /// Whether the results are the parts of one list.
  bool makesList = false;
  /// Whether the node belongs to a graph that runs without gradients.
  bool stopsGradients = false;
};

struct Graph {
  std::vector<std::string> inputs; ///< in order; "" if not a value
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  llvm::StringMap<TensorMeta> tensors;
};

/// An input of the program.
struct InputSpec {
  enum class Kind { User, Parameter, Buffer, Constant, Other };
  Kind kind = Kind::Other;
  std::string value; ///< its name in the graph
  std::string name;  ///< a weight's path in the module
};

/// An output of the program.
struct OutputSpec {
  enum class Kind { User, BufferMutation, Other };
  Kind kind = Kind::Other;
  Argument value;
  std::string buffer; ///< the path of a mutated buffer
  std::string what;   ///< the schema's name of the kind
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
};

/// The location of a weight's bytes.
struct WeightEntry {
  std::string record; ///< its name in the archive
  bool pickled = false;
  TensorMeta meta;
  size_t position = 0; ///< in the order of the module's members
};

/// Reads the program. Fails on other schema versions and on damaged files.
llvm::Expected<Program> readProgram(const Archive &archive);

/// Reads the tables of weights and of constants, by path in the module.
llvm::Expected<llvm::StringMap<WeightEntry>>
readWeightTable(const Archive &archive);

/// Replaces each call in `graph` by the nodes of the inner graph that it calls.
/// `graph` belongs to a program in `file`. Values of an inner graph are
/// prefixed by the name of the call. The results of the call are copied by
/// `aten.alias`, or by `aten.detach` where gradients stop.
llvm::Error inlineCalls(Graph &graph, llvm::StringRef file);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_PROGRAM_H
