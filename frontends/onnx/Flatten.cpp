//===- Flatten.cpp - Inlining of model-local functions --------------------===//
#include "frontends/onnx/Flatten.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace dpc::frontend {

namespace {

/// ONNX does not allow recursion, so deeper calls are an error in the file.
constexpr int kMaxDepth = 64;

std::string functionKey(const std::string &domain, const std::string &name,
                        const std::string &overload) {
  return (domain == "ai.onnx" ? std::string() : domain) + "/" + name + "/" +
         overload;
}

class Flattener {
public:
  explicit Flattener(const ::onnx::ModelProto &model) {
    for (const FunctionProto &f : model.functions())
      functions[functionKey(f.domain(), f.name(), f.overload())] = &f;
  }

  llvm::Error run(const GraphProto &graph, int64_t opset,
                  std::optional<int64_t> fixedIndex) {
    int64_t index = 0;
    for (const NodeProto &node : graph.node())
      if (llvm::Error error = add(node, opset, fixedIndex.value_or(index++), 0))
        return error;
    return llvm::Error::success();
  }

  std::vector<FlatNode> nodes;

private:
  llvm::Error add(const NodeProto &node, int64_t opset, int64_t index,
                  int depth) {
    auto found = functions.find(
        functionKey(node.domain(), node.op_type(), node.overload()));
    if (found == functions.end()) {
      nodes.push_back({node, opset, index});
      return llvm::Error::success();
    }
    if (depth == kMaxDepth)
      return makeError("node {0}: function {1} calls itself", index,
                       node.op_type());
    return inlineCall(node, *found->second, opset, index, depth);
  }

  llvm::Error inlineCall(const NodeProto &call, const FunctionProto &body,
                         int64_t opset, int64_t index, int depth) {
    std::string prefix = (call.name().empty() ? call.op_type() : call.name()) +
                         "#" + std::to_string(calls++) + "/";
    llvm::StringMap<std::string> names;
    for (int i = 0; i < body.input_size(); ++i)
      names[body.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < body.output_size(); ++i)
      if (i < call.output_size() && !call.output(i).empty())
        names[body.output(i)] = call.output(i);
    if (int64_t own = defaultOpset(body.opset_import()))
      opset = own;
    // If an output of the body is also an input, a node must copy it.
    for (int i = 0; i < body.output_size(); ++i)
      for (int j = 0; j < body.input_size(); ++j)
        if (body.output(i) == body.input(j) && i < call.output_size() &&
            j < call.input_size()) {
          NodeProto identity;
          identity.set_op_type("Identity");
          identity.add_input(call.input(j));
          identity.add_output(call.output(i));
          nodes.push_back({identity, opset, index});
          names[body.input(j)] = call.input(j);
        }
    for (const NodeProto &inner : body.node()) {
      NodeProto copy = inner;
      bindAttributes(copy, call, body);
      rename(copy, names, prefix);
      if (!copy.name().empty())
        copy.set_name(prefix + copy.name());
      if (llvm::Error error = add(copy, opset, index, depth + 1))
        return error;
    }
    return llvm::Error::success();
  }

  /// Resolves references to the function's attributes by their value in the
  /// call or their default. Removes references without a value.
  static void bindAttributes(NodeProto &node, const NodeProto &call,
                             const FunctionProto &body) {
    google::protobuf::RepeatedPtrField<AttributeProto> bound;
    for (AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_g())
        for (NodeProto &inner : *attribute.mutable_g()->mutable_node())
          bindAttributes(inner, call, body);
      if (attribute.ref_attr_name().empty()) {
        *bound.Add() = attribute;
        continue;
      }
      const AttributeProto *value = nullptr;
      for (const AttributeProto &candidate : body.attribute_proto())
        if (candidate.name() == attribute.ref_attr_name())
          value = &candidate;
      for (const AttributeProto &candidate : call.attribute())
        if (candidate.name() == attribute.ref_attr_name())
          value = &candidate;
      if (!value)
        continue;
      AttributeProto *copy = bound.Add();
      *copy = *value;
      copy->set_name(attribute.name());
    }
    node.mutable_attribute()->Swap(&bound);
  }

  static void rename(NodeProto &node, llvm::StringMap<std::string> &names,
                     const std::string &prefix) {
    auto outer = [&](std::string *name) {
      if (name->empty())
        return;
      auto [entry, isNew] = names.try_emplace(*name, prefix + *name);
      *name = entry->second;
    };
    for (std::string &name : *node.mutable_input())
      outer(&name);
    for (std::string &name : *node.mutable_output())
      outer(&name);
    for (AttributeProto &attribute : *node.mutable_attribute()) {
      if (!attribute.has_g())
        continue;
      GraphProto *graph = attribute.mutable_g();
      for (auto &initializer : *graph->mutable_initializer())
        outer(initializer.mutable_name());
      for (auto &input : *graph->mutable_input())
        outer(input.mutable_name());
      for (auto &output : *graph->mutable_output())
        outer(output.mutable_name());
      for (NodeProto &inner : *graph->mutable_node())
        rename(inner, names, prefix);
    }
  }

  llvm::StringMap<const FunctionProto *> functions;
  int64_t calls = 0;
};

} // namespace

llvm::Expected<std::vector<FlatNode>> flatten(const ::onnx::ModelProto &model,
                                              const GraphProto &graph,
                                              int64_t opset,
                                              std::optional<int64_t> index) {
  Flattener flattener(model);
  if (llvm::Error error = flattener.run(graph, opset, index))
    return std::move(error);
  return std::move(flattener.nodes);
}

void collectReads(const NodeProto &node,
                  llvm::function_ref<void(llvm::StringRef)> read) {
  for (const std::string &name : node.input())
    if (!name.empty())
      read(name);
  for (const AttributeProto &attribute : node.attribute()) {
    if (!attribute.has_g())
      continue;
    for (const NodeProto &inner : attribute.g().node())
      collectReads(inner, read);
    for (const auto &output : attribute.g().output())
      read(output.name());
  }
}

} // namespace dpc::frontend
