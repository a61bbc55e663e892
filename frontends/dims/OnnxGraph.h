//===- OnnxGraph.h - Node-by-node construction of an ONNX graph -*- C++ -*-===//
//
// Values are identified by their names, as in ONNX. Weights have no data: they
// are float initializers in an external file that never exists. The importer
// treats such weights as abstract (frontends/onnx/ModelFile.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "onnx-ml.pb.h"

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace dpc::model {

using Shape = std::vector<int64_t>;

struct Attribute {
  const char *name;
  std::variant<int64_t, float, std::string, Shape> value;
};

class OnnxGraph {
public:
  explicit OnnxGraph(const std::string &name);

  /// Adds an input of shape [batch, `shape`..], in which `batch` is symbolic.
  std::string input(const std::string &name, ::onnx::TensorProto::DataType type,
                    const Shape &shape);
  /// Adds a trained float tensor without data. Names must be unique.
  std::string weight(const std::string &name, const Shape &shape);
  /// Adds a float vector whose data is in the model.
  std::string vector(const std::string &name, const std::vector<float> &values);
  /// Adds a constant, or returns the equal constant that exists already.
  std::string number(float value);
  std::string integer(int64_t value);
  std::string ints(const Shape &values);
  /// Adds a Constant node, because an initializer would be trained.
  std::string table(const std::vector<float> &values);
  /// Returns the constant [0, 1] that OneHot reads as its values.
  std::string zeroAndOne();

  /// Adds a node with one output and returns that output.
  std::string op(const char *kind, const std::vector<std::string> &inputs,
                 const std::vector<Attribute> &attributes = {});
  std::vector<std::string> ops(const char *kind, int outputs,
                               const std::vector<std::string> &inputs,
                               const std::vector<Attribute> &attributes = {});
  /// Adds the model output `name` that returns the float scalar `value`.
  void result(const std::string &name, const std::string &value);

  /// Returns how many elements all weights have together.
  double parameters() const { return count; }
  /// Returns the model; the graph must not be used afterwards.
  ::onnx::ModelProto take() { return std::move(model); }

private:
  ::onnx::TensorProto &initializer(const std::string &name,
                                   ::onnx::TensorProto::DataType type);

  ::onnx::ModelProto model;
  ::onnx::GraphProto &graph;
  std::set<std::string> constants; ///< names of existing constants
  std::string oneHotValues;
  int64_t nodes = 0;
  double count = 0;
};

} // namespace dpc::model
