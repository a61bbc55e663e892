//===- OnnxGraph.h - Node-by-node construction of an ONNX graph -*- C++ -*-===//
//
// Strings name the values, as in ONNX. Weights are described without data: they
// are float initializers with an external file that never exists. The importer
// treats such weights as abstract (frontends/onnx/ModelFile.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_DIMS_ONNXGRAPH_H
#define DPC_FRONTENDS_DIMS_ONNXGRAPH_H

#include "onnx-ml.pb.h"

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace dpc::model {

using Shape = std::vector<int64_t>;

/// One attribute of a node.
struct Attribute {
  const char *name;
  std::variant<int64_t, float, std::string, Shape> value;
};

class OnnxGraph {
public:
  explicit OnnxGraph(const std::string &name);

  /// An input of shape [batch, `shape`..]; `batch` is a symbol.
  std::string input(const std::string &name, ::onnx::TensorProto::DataType type,
                    const Shape &shape);
  /// A trained float tensor without data. Names must be unique.
  std::string weight(const std::string &name, const Shape &shape);
  /// A float vector that is stored in the model.
  std::string vector(const std::string &name, const std::vector<float> &values);
  /// Constants; each distinct constant is stored once.
  std::string number(float value);
  std::string integer(int64_t value);
  std::string ints(const Shape &values);
  /// A constant in a node. It is not an initializer and hence not trained.
  std::string table(const std::vector<float> &values);
  /// The values of OneHot: 0 and 1.
  std::string zeroAndOne();

  /// Adds a node with one output and returns that output.
  std::string op(const char *kind, const std::vector<std::string> &inputs,
                 const std::vector<Attribute> &attributes = {});
  /// Adds a node with `outputs` outputs and returns them.
  std::vector<std::string> ops(const char *kind, int outputs,
                               const std::vector<std::string> &inputs,
                               const std::vector<Attribute> &attributes = {});
  /// Makes `value`, a float scalar, an output of the model called `name`.
  void result(const std::string &name, const std::string &value);

  /// The number of elements of all weights so far.
  double parameters() const { return count; }
  /// Returns the model; the graph must not be used afterwards.
  ::onnx::ModelProto take() { return std::move(model); }

private:
  ::onnx::TensorProto &initializer(const std::string &name,
                                   ::onnx::TensorProto::DataType type);

  ::onnx::ModelProto model;
  ::onnx::GraphProto &graph;
  std::set<std::string> constants; ///< Constants that exist already.
  std::string oneHotValues;
  int64_t nodes = 0;
  double count = 0;
};

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_ONNXGRAPH_H
