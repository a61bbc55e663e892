//===- Program.h - An exported program --------------------------*- C++ -*-===//
//
// Structures of torch.export's schema, version 8 (_export/serde/schema.py).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/torch/Archive.h"
#include "frontends/torch/Json.h"

#include "llvm/ADT/StringMap.h"

namespace dpc::frontend::pt2 {

/// An integer of a node: a number, or the name of a value in the graph.
struct SymInt {
  std::string name; ///< "" if it is the number `value`
  int64_t value = 0;
};

/// A declared size: a number, or an expression of symbols.
struct Size {
  std::string expression; ///< "" if it is the number `value`
  int64_t value = 0;

  /// Returns the symbol if the expression consists of one; otherwise "".
  std::string symbol() const;
  /// Whether the size is known only at run time (symbols u0, u1, ..).
  bool dependsOnData() const;
};

struct TensorMeta {
  int64_t dtype = 0;
  std::vector<Size> sizes;
  std::vector<Size> strides;
  int64_t storageOffset = 0;
  bool requiresGrad = false;
};

struct Graph;

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
    Place, ///< device or memory layout: ignored
    Other, ///< text: the schema's name of the kind
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
  /// Names of the results; "" if a result is not a value.
  std::vector<std::string> outputs;
  /// The line of the model that makes the node ("model.py:12 in forward"), or
  /// "" if the file does not say it.
  std::string source;
  /// Whether the results are the elements of one list.
  bool makesList = false;
  /// Whether the node is in a graph that runs without gradients.
  bool stopsGradients = false;
};

struct Graph {
  std::vector<std::string> inputs; ///< in order; "" if not a value
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  llvm::StringMap<TensorMeta> tensors;
};

struct InputSpec {
  enum class Kind { User, Parameter, Buffer, Constant, Other };
  Kind kind = Kind::Other;
  std::string value; ///< name in the graph
  std::string name;  ///< path of a weight in the module
};

struct OutputSpec {
  enum class Kind { User, Mutation, Other };
  Kind kind = Kind::Other;
  Argument value;
  /// The place of a user output in the returned dicts, such as "aux.balance",
  /// or "" if it is in no dict.
  std::string key;
  /// For a mutation: the weight's path or the input's name.
  std::string changed;
  std::string what; ///< the schema's name of the kind
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
};

/// Where the bytes of a weight are.
struct WeightEntry {
  std::string record; ///< name in the archive
  bool pickled = false;
  /// Whether the state_dict lacks it: a lifted constant or a buffer with
  /// persistent=False.
  bool isUnsaved = false;
  TensorMeta meta;
  size_t position = 0; ///< index among the module's members
};

/// Reads the program. Fails if it is damaged or its schema is unsupported.
llvm::Expected<Program> readProgram(const Archive &archive);

/// Reads the tables of weights and constants. Keys are paths in the module.
llvm::Expected<llvm::StringMap<WeightEntry>>
readWeightTable(const Archive &archive);

/// Inlines the inner graphs that nodes of `graph` call. The names of inner
/// values get the call's name as a prefix. The call's results become copies,
/// made by `aten.detach` where gradients stop and by `aten.alias` elsewhere.
/// Messages call the program `file`.
llvm::Error inlineCalls(Graph &graph, llvm::StringRef file);

} // namespace dpc::frontend::pt2
