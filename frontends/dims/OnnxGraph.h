//===- OnnxGraph.h - Writes an ONNX graph node by node ----------*- C++ -*-===//
//
// Values are named by strings, as in ONNX. Weights are described and absent:
// float initializers whose external file is never there, which the importer
// takes for abstract ones (frontends/onnx/ModelFile.h).
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

  /// An input whose first dimension is the symbol `batch`; `shape` is the rest.
  std::string input(const std::string &name, ::onnx::TensorProto::DataType type,
                    const Shape &shape);
  /// A trained float tensor without data. Names differ.
  std::string weight(const std::string &name, const Shape &shape);
  /// A float vector that is stored in the model.
  std::string vector(const std::string &name, const std::vector<float> &values);
  /// Constants, which are stored once however often they are asked for.
  std::string number(float value);
  std::string integer(int64_t value);
  std::string ints(const Shape &values);
  /// A constant that is stored in a node: no initializer, hence not trained.
  std::string table(const std::vector<float> &values);
  /// What one-hot puts in: 0 and 1.
  std::string zeroAndOne();

  /// The result of a node of one output.
  std::string op(const char *kind, const std::vector<std::string> &inputs,
                 const std::vector<Attribute> &attributes = {});
  /// The results of a node of `outputs` outputs.
  std::vector<std::string> ops(const char *kind, int outputs,
                               const std::vector<std::string> &inputs,
                               const std::vector<Attribute> &attributes = {});
  /// Names `value`, a float scalar, as an output of the model.
  void result(const std::string &name, const std::string &value);

  /// Elements of all weights so far.
  double parameters() const { return count; }
  /// The model; the graph is of no use afterwards.
  ::onnx::ModelProto take() { return std::move(model); }

private:
  ::onnx::ModelProto model;
  ::onnx::GraphProto &graph;
  std::set<std::string> constants; ///< Those that are there.
  std::string oneHotValues;
  int64_t nodes = 0;
  double count = 0;
};

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_ONNXGRAPH_H
