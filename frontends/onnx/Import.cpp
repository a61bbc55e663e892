//===- Import.cpp - ONNX files become dpc modules -------------------------===//
#include "frontends/onnx/Import.h"
#include "frontends/emit/Forward.h"
#include "frontends/onnx/NodeContext.h"
#include "frontends/onnx/Roles.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend {

/// Operator sets that the operators here were written against.
static constexpr int64_t kMinOpset = 1;
static constexpr int64_t kMaxOpset = 27;

static const OpTable &opTable() {
  static const OpTable table = [] {
    OpTable t;
    addAttentionOps(t);
    addComposedOps(t);
    addContractionOps(t);
    addElementwiseOps(t);
    addIndexingOps(t);
    addLossOps(t);
    addMovementOps(t);
    addRecurrentOps(t);
    addResizeOps(t);
    addRowOps(t);
    addScatterOps(t);
    addSequenceOps(t);
    addShapeOps(t);
    addSpatialNormOps(t);
    addSpatialOps(t);
    return t;
  }();
  return table;
}

/// Operators whose result shape is decided by data.
static bool isDataDependent(llvm::StringRef op) {
  return op == "NonZero" || op == "Unique" || op == "Compress" ||
         op == "NonMaxSuppression";
}

namespace {

class Importer {
public:
  Importer(const ModelFile &file, MLIRContext *context,
           const ImportOptions &options)
      : file(file), context(context), options(options),
        forward(file.path(), context), emit(forward.emit) {}

  llvm::Expected<OwningOpRef<ModuleOp>> run();

private:
  using Scope = llvm::StringMap<Val>;

  llvm::Error createFunction(llvm::ArrayRef<Weight> weights,
                             llvm::ArrayRef<BoundInput> inputs);
  llvm::Error addConstants(llvm::ArrayRef<Weight> weights);
  llvm::Error convertNodes(llvm::ArrayRef<FlatNode> nodes);
  llvm::Error convertNode(const FlatNode &node);
  llvm::Error convertIf(const FlatNode &node);
  llvm::Expected<OwningOpRef<ModuleOp>> finish();

  Val lookup(llvm::StringRef name) const;
  llvm::Error nodeError(const FlatNode &node, const llvm::Twine &why) const;

  const ModelFile &file;
  MLIRContext *context;
  const ImportOptions &options;
  Forward forward;
  Emitter &emit;
  std::vector<Scope> scopes = std::vector<Scope>(1);
};

} // namespace

/// Nodes that the names in `live` depend on, in order.
static std::vector<FlatNode> liveNodes(std::vector<FlatNode> nodes,
                                       llvm::StringSet<> live) {
  std::vector<FlatNode> kept;
  for (FlatNode &node : llvm::reverse(nodes)) {
    if (llvm::none_of(node.proto.output(), [&](const std::string &name) {
          return live.contains(name);
        }))
      continue;
    collectReads(node.proto, [&](llvm::StringRef name) { live.insert(name); });
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

static llvm::StringSet<> outputNames(const ::onnx::GraphProto &graph) {
  llvm::StringSet<> names;
  for (const auto &output : graph.output())
    names.insert(output.name());
  return names;
}

/// The graph's inputs (initializers listed among them are none). A dimension
/// without a name is called INPUT.D.
static llvm::Expected<std::vector<DeclaredInput>>
declaredInputs(const ModelFile &file, MLIRContext *context) {
  const auto &graph = file.model().graph();
  llvm::StringSet<> initializers;
  for (const auto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  std::vector<DeclaredInput> inputs;
  for (const auto &info : graph.input()) {
    if (initializers.contains(info.name()))
      continue;
    std::string what = file.path() + ": input '" + info.name() + "'";
    const auto &tensor = info.type().tensor_type();
    if (!info.type().has_tensor_type() || !tensor.has_shape())
      return makeError(what + " is no tensor of known rank");
    DeclaredInput input{
        info.name(), elementTypeOf(tensor.elem_type(), context), {}};
    if (!input.element)
      return makeError(what + " has elements of " +
                       onnxTypeName(tensor.elem_type()) +
                       ", which is not supported; accepted: FLOAT, FLOAT16, "
                       "BFLOAT16, DOUBLE, INT64, INT32, BOOL");
    for (const auto &[d, size] : llvm::enumerate(tensor.shape().dim())) {
      InputDim dim;
      if (size.has_dim_value() && size.dim_value() >= 0)
        dim.size = size.dim_value();
      else if (!size.dim_param().empty())
        dim.symbol = size.dim_param();
      else
        dim.symbol = info.name() + "." + std::to_string(d);
      input.dims.push_back(dim);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::run() {
  const ::onnx::ModelProto &model = file.model();
  int64_t opset = defaultOpset(model.opset_import());
  if (opset < kMinOpset || opset > kMaxOpset)
    return makeError(file.path() + ": operator set " + llvm::Twine(opset) +
                     " is not supported; accepted: " + llvm::Twine(kMinOpset) +
                     " to " + llvm::Twine(kMaxOpset));
  if (model.graph().sparse_initializer_size())
    return makeError(file.path() + ": sparse initializers are not supported");
  auto flat = flatten(model, model.graph(), opset);
  if (!flat)
    return flat.takeError();
  std::vector<FlatNode> nodes =
      liveNodes(std::move(*flat), outputNames(model.graph()));
  auto declared = declaredInputs(file, context);
  if (!declared)
    return declared.takeError();
  auto inputs = bindInputs(file.path(), std::move(*declared), options);
  if (!inputs)
    return inputs.takeError();
  auto weights = classifyWeights(file, nodes, options, context);
  if (!weights)
    return weights.takeError();
  if (llvm::Error error = createFunction(*weights, *inputs))
    return std::move(error);
  if (llvm::Error error = convertNodes(nodes))
    return std::move(error);
  return finish();
}

llvm::Error Importer::nodeError(const FlatNode &node,
                                const llvm::Twine &why) const {
  std::string name = node.proto.name();
  if (name.empty() && node.proto.output_size())
    name = node.proto.output(0);
  return makeError(file.path() + ": node " + llvm::Twine(node.index) + " '" +
                   name + "': " + why);
}

//===----------------------------------------------------------------------===//
// Function
//===----------------------------------------------------------------------===//

llvm::Error Importer::createFunction(llvm::ArrayRef<Weight> weights,
                                     llvm::ArrayRef<BoundInput> inputs) {
  std::vector<WeightArgument> arguments;
  std::vector<std::string> constants;
  for (const Weight &weight : weights) {
    const std::string &name = weight.tensor->name();
    if (weight.role == WeightRole::Parameter ||
        weight.role == WeightRole::Buffer)
      arguments.push_back({name, weight.type,
                           weight.role == WeightRole::Parameter, weight.data});
    else if (weight.role == WeightRole::Constant &&
             isa<FloatType>(weight.type.getElementType()))
      constants.push_back(name);
  }
  scopes.front() = forward.begin(arguments, inputs, constants);
  return addConstants(weights);
}

llvm::Error Importer::addConstants(llvm::ArrayRef<Weight> weights) {
  for (const Weight &weight : weights) {
    if (weight.role != WeightRole::Constant)
      continue;
    auto value = file.decode(*weight.tensor, context);
    if (!value)
      return makeError(file.path() + ": " + llvm::toString(value.takeError()));
    scopes.front()[weight.tensor->name()] = Val(std::move(*value));
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

Val Importer::lookup(llvm::StringRef name) const {
  for (const Scope &scope : llvm::reverse(scopes)) {
    auto found = scope.find(name);
    if (found != scope.end())
      return found->second;
  }
  return {};
}

llvm::Error Importer::convertNodes(llvm::ArrayRef<FlatNode> nodes) {
  for (const FlatNode &node : nodes)
    if (llvm::Error error = convertNode(node))
      return error;
  return llvm::Error::success();
}

llvm::Error Importer::convertNode(const FlatNode &node) {
  const ::onnx::NodeProto &proto = node.proto;
  llvm::StringRef op = proto.op_type();
  bool isDefault = proto.domain().empty() || proto.domain() == "ai.onnx";
  if (isDefault && op == "If")
    return convertIf(node);
  if (isDefault && isDataDependent(op))
    return nodeError(node, "operator " + op +
                               " makes a tensor whose shape depends on data, "
                               "which is not supported");
  auto handler = opTable().find(op);
  if (!isDefault || handler == opTable().end())
    return nodeError(node, "operator " + op + " (domain '" + proto.domain() +
                               "') is not supported");
  llvm::SmallVector<Val> inputs;
  for (const std::string &name : proto.input()) {
    inputs.push_back(name.empty() ? Val() : lookup(name));
    if (!name.empty() && !inputs.back())
      return nodeError(node, "input '" + name + "' is made by no earlier node");
    if (inputs.back().parts && !takesSequences(op))
      return nodeError(node, "operator " + op + ": input '" + name +
                                 "' is a sequence, which only SequenceAt, "
                                 "SequenceLength and ConcatFromSequence take");
  }
  emit.loc = NameLoc::get(StringAttr::get(
      context, proto.name().empty() ? proto.op_type() : proto.name()));
  NodeContext converted(emit, file, node, std::move(inputs));
  handler->second(converted);
  if (emit.failed())
    return nodeError(node, op + ": " + emit.error);
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty())
      continue;
    if (!converted.outputs[i])
      continue; // an optional output; a reader of it is told by name
    scopes.back()[proto.output(i)] = converted.outputs[i];
  }
  return llvm::Error::success();
}

llvm::Error Importer::convertIf(const FlatNode &node) {
  const ::onnx::NodeProto &proto = node.proto;
  Val condition = proto.input_size() ? lookup(proto.input(0)) : Val();
  if (!condition.constant || condition.constant->size() != 1)
    return nodeError(node, "operator If: condition '" +
                               (proto.input_size() ? proto.input(0) : "") +
                               "' is computed from data; only conditions "
                               "known when the model is compiled are "
                               "supported");
  llvm::StringRef wanted =
      condition.constant->at(0).i ? "then_branch" : "else_branch";
  for (const auto &attribute : proto.attribute()) {
    if (attribute.name() != wanted)
      continue;
    const ::onnx::GraphProto &branch = attribute.g();
    auto flat = flatten(file.model(), branch, node.opset, node.index);
    if (!flat)
      return flat.takeError();
    scopes.emplace_back();
    for (const auto &initializer : branch.initializer()) {
      auto value = file.decode(initializer, context);
      if (!value)
        return nodeError(node, llvm::toString(value.takeError()));
      scopes.back()[initializer.name()] = Val(std::move(*value));
    }
    if (llvm::Error error =
            convertNodes(liveNodes(std::move(*flat), outputNames(branch))))
      return error;
    llvm::SmallVector<Val> results;
    for (const auto &output : branch.output())
      results.push_back(lookup(output.name()));
    scopes.pop_back();
    for (int i = 0; i < proto.output_size(); ++i)
      if (i < static_cast<int>(results.size()) && results[i])
        scopes.back()[proto.output(i)] = results[i];
    return llvm::Error::success();
  }
  return nodeError(node, "operator If has no " + wanted);
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::finish() {
  std::vector<NamedResult> results;
  for (const auto &output : file.model().graph().output())
    results.push_back({output.name(), lookup(output.name())});
  return forward.finish(results);
}

} // namespace dpc::frontend

using namespace dpc;

static mlir::FailureOr<OwningOpRef<ModuleOp>>
importModel(llvm::Expected<std::unique_ptr<frontend::ModelFile>> model,
            llvm::StringRef file, MLIRContext &context,
            const ImportOptions &options) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  if (!model)
    return frontend::verified(model.takeError(), file, context);
  return frontend::verified(
      frontend::Importer(**model, &context, options).run(), file, context);
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importOnnx(llvm::StringRef file, MLIRContext &context,
                const ImportOptions &options) {
  return importModel(frontend::ModelFile::open(file), file, context, options);
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importOnnx(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
                MLIRContext &context, const ImportOptions &options) {
  return importModel(frontend::ModelFile::parse(std::move(bytes), file), file,
                     context, options);
}
