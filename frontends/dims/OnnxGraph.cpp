//===- OnnxGraph.cpp - Node-by-node construction of an ONNX graph ---------===//
#include "frontends/dims/OnnxGraph.h"

#include <cstdio>

using ::onnx::AttributeProto;
using ::onnx::TensorProto;

namespace dpc::model {

/// The first operator set with RMSNormalization.
static constexpr int64_t kOpset = 23;
static constexpr int64_t kIrVersion = 10;
/// Weights are abstract because this external file never exists.
static constexpr const char *kAbsent = "absent.bin";

OnnxGraph::OnnxGraph(const std::string &name) : graph(*model.mutable_graph()) {
  model.set_ir_version(kIrVersion);
  model.set_producer_name("dpc-model");
  model.add_opset_import()->set_version(kOpset);
  graph.set_name(name);
}

std::string OnnxGraph::input(const std::string &name,
                             TensorProto::DataType type, const Shape &shape) {
  auto *info = graph.add_input();
  info->set_name(name);
  auto *tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape()->add_dim()->set_dim_param("batch");
  for (int64_t size : shape)
    tensor->mutable_shape()->add_dim()->set_dim_value(size);
  return name;
}

std::string OnnxGraph::weight(const std::string &name, const Shape &shape) {
  TensorProto &tensor = initializer(name, TensorProto::FLOAT);
  tensor.set_data_location(TensorProto::EXTERNAL);
  auto *place = tensor.add_external_data();
  place->set_key("location");
  place->set_value(kAbsent);
  double elements = 1;
  for (int64_t size : shape) {
    tensor.add_dims(size);
    elements *= static_cast<double>(size);
  }
  count += elements;
  return name;
}

TensorProto &OnnxGraph::initializer(const std::string &name,
                                    TensorProto::DataType type) {
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  return tensor;
}

std::string OnnxGraph::vector(const std::string &name,
                              const std::vector<float> &values) {
  TensorProto &tensor = initializer(name, TensorProto::FLOAT);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

std::string OnnxGraph::number(float value) {
  char name[32];
  std::snprintf(name, sizeof name, "const_%g", value);
  if (constants.insert(name).second)
    initializer(name, TensorProto::FLOAT).add_float_data(value);
  return name;
}

std::string OnnxGraph::integer(int64_t value) {
  std::string name = "int_" + std::to_string(value);
  if (constants.insert(name).second)
    initializer(name, TensorProto::INT64).add_int64_data(value);
  return name;
}

std::string OnnxGraph::ints(const Shape &values) {
  std::string name = "ints";
  for (int64_t value : values)
    name += "_" + std::to_string(value);
  if (!constants.insert(name).second)
    return name;
  TensorProto &tensor = initializer(name, TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.mutable_int64_data()->Assign(values.begin(), values.end());
  return name;
}

std::string OnnxGraph::table(const std::vector<float> &values) {
  std::string name = "Constant_" + std::to_string(nodes++);
  auto &node = *graph.add_node();
  node.set_op_type("Constant");
  node.add_output(name);
  AttributeProto &attribute = *node.add_attribute();
  attribute.set_name("value_floats");
  attribute.set_type(AttributeProto::FLOATS);
  for (float value : values)
    attribute.add_floats(value);
  return name;
}

std::string OnnxGraph::zeroAndOne() {
  if (oneHotValues.empty())
    oneHotValues = table({0.0F, 1.0F});
  return oneHotValues;
}

static void setValue(AttributeProto &proto, const Attribute &attribute) {
  proto.set_name(attribute.name);
  if (const auto *i = std::get_if<int64_t>(&attribute.value)) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(*i);
  } else if (const auto *f = std::get_if<float>(&attribute.value)) {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(*f);
  } else if (const auto *s = std::get_if<std::string>(&attribute.value)) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(*s);
  } else {
    proto.set_type(AttributeProto::INTS);
    for (int64_t value : std::get<Shape>(attribute.value))
      proto.add_ints(value);
  }
}

std::vector<std::string>
OnnxGraph::ops(const char *kind, int outputs,
               const std::vector<std::string> &inputs,
               const std::vector<Attribute> &attributes) {
  auto &node = *graph.add_node();
  node.set_op_type(kind);
  for (const std::string &input : inputs)
    node.add_input(input);
  for (const Attribute &attribute : attributes)
    setValue(*node.add_attribute(), attribute);
  std::string name = std::string(kind) + "_" + std::to_string(nodes++);
  std::vector<std::string> results;
  for (int i = 0; i < outputs; ++i) {
    results.push_back(i == 0 ? name : name + ":" + std::to_string(i));
    node.add_output(results.back());
  }
  return results;
}

std::string OnnxGraph::op(const char *kind,
                          const std::vector<std::string> &inputs,
                          const std::vector<Attribute> &attributes) {
  return ops(kind, 1, inputs, attributes).front();
}

void OnnxGraph::result(const std::string &name, const std::string &value) {
  auto &node = *graph.add_node();
  node.set_op_type("Identity");
  node.add_input(value);
  node.add_output(name);
  auto *info = graph.add_output();
  info->set_name(name);
  auto *tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(TensorProto::FLOAT);
  tensor->mutable_shape();
}

} // namespace dpc::model
