//===- Import.cpp - ONNX files become dpc modules -------------------------===//
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Bind.h"
#include "frontends/onnx/NodeContext.h"
#include "frontends/onnx/Roles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace dpc::frontend {

/// Operator sets that the operators here were written against.
static constexpr int64_t kMinOpset = 7;
static constexpr int64_t kMaxOpset = 27;

static const OpTable &opTable() {
  static const OpTable table = [] {
    OpTable t;
    addAttentionOps(t);
    addContractionOps(t);
    addElementwiseOps(t);
    addIndexingOps(t);
    addLossOps(t);
    addMovementOps(t);
    addRowOps(t);
    addSequenceOps(t);
    addShapeOps(t);
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
        emit(OpBuilder(context)) {}

  llvm::Expected<OwningOpRef<ModuleOp>> run();

private:
  using Scope = llvm::StringMap<Val>;

  llvm::Error createFunction(llvm::ArrayRef<Weight> weights,
                             llvm::ArrayRef<BoundInput> inputs);
  llvm::Error addConstants(llvm::ArrayRef<Weight> weights);
  llvm::Error convertNodes(llvm::ArrayRef<FlatNode> nodes);
  llvm::Error convertNode(const FlatNode &node);
  llvm::Error convertIf(const FlatNode &node);
  llvm::Error finish();
  void addUpdates(llvm::SmallVectorImpl<Value> &results,
                  llvm::SmallVectorImpl<DictionaryAttr> &attrs);

  DictionaryAttr weightAttrs(const Weight &weight);
  DictionaryAttr inputAttrs(const BoundInput &input);
  Val lookup(llvm::StringRef name) const;
  llvm::Error nodeError(const FlatNode &node, const llvm::Twine &why) const;

  const ModelFile &file;
  MLIRContext *context;
  const ImportOptions &options;
  Emitter emit;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
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
  auto inputs = bindInputs(file, options, context);
  if (!inputs)
    return inputs.takeError();
  auto weights = classifyWeights(file, nodes, options, context);
  if (!weights)
    return weights.takeError();
  if (llvm::Error error = createFunction(*weights, *inputs))
    return std::move(error);
  if (llvm::Error error = convertNodes(nodes))
    return std::move(error);
  if (llvm::Error error = finish())
    return std::move(error);
  return std::move(module);
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

DictionaryAttr Importer::weightAttrs(const Weight &weight) {
  Builder b(context);
  llvm::StringRef role =
      weight.role == WeightRole::Parameter ? role::kParameter : role::kBuffer;
  NamedAttrList attrs;
  attrs.append(attr::kName, b.getStringAttr(weight.tensor->name()));
  attrs.append(attr::kRole, b.getStringAttr(role));
  if (weight.data) {
    NamedAttrList source;
    source.append("file", b.getStringAttr(weight.data->file));
    source.append("offset", b.getI64IntegerAttr(weight.data->offset));
    source.append("bytes", b.getI64IntegerAttr(weight.data->bytes));
    source.append("dtype",
                  b.getStringAttr(dtypeName(weight.type.getElementType())));
    attrs.append(attr::kSource, source.getDictionary(context));
  }
  return attrs.getDictionary(context);
}

DictionaryAttr Importer::inputAttrs(const BoundInput &input) {
  Builder b(context);
  NamedAttrList attrs;
  attrs.append(attr::kName, b.getStringAttr(input.name));
  attrs.append(attr::kRole, b.getStringAttr(role::kInput));
  if (input.batchDim)
    attrs.append(attr::kBatchDim, b.getI64IntegerAttr(*input.batchDim));
  return attrs.getDictionary(context);
}

llvm::Error Importer::createFunction(llvm::ArrayRef<Weight> weights,
                                     llvm::ArrayRef<BoundInput> inputs) {
  llvm::SmallVector<Type> types;
  llvm::SmallVector<DictionaryAttr> attrs;
  llvm::SmallVector<std::string> names;
  for (WeightRole role : {WeightRole::Parameter, WeightRole::Buffer})
    for (const Weight &weight : weights) {
      if (weight.role != role)
        continue;
      types.push_back(weight.type);
      attrs.push_back(weightAttrs(weight));
      names.push_back(weight.tensor->name());
    }
  for (const BoundInput &input : inputs) {
    types.push_back(input.type);
    attrs.push_back(inputAttrs(input));
    names.push_back(input.name);
  }

  // A place, no name: what the compiler adds must not be called by the folder.
  Location loc = FileLineColLoc::get(context, file.path(), 0, 0);
  module = ModuleOp::create(loc);
  (*module)->setAttr(
      attr::kModel,
      StringAttr::get(context, llvm::sys::path::stem(file.path())));
  llvm::SmallVector<llvm::StringRef> constants;
  for (const Weight &weight : weights)
    if (weight.role == WeightRole::Constant &&
        isa<FloatType>(weight.type.getElementType()))
      constants.push_back(weight.tensor->name());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  if (!constants.empty())
    (*module)->setAttr(attr::kConstants, builder.getStrArrayAttr(constants));
  function = func::FuncOp::create(builder, loc, "forward",
                                  builder.getFunctionType(types, {}));
  Block *body = function.addEntryBlock();
  function.setAllArgAttrs(attrs);
  emit.builder.setInsertionPointToEnd(body);
  emit.loc = loc;
  for (auto [name, argument] : llvm::zip(names, body->getArguments()))
    scopes.front()[name] = Val(argument);
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

/// The next values of buffers that the model moves (running statistics).
void Importer::addUpdates(llvm::SmallVectorImpl<Value> &results,
                          llvm::SmallVectorImpl<DictionaryAttr> &attrs) {
  Builder b(context);
  for (auto [argument, value] : emit.updates) {
    unsigned index = argument.getArgNumber();
    auto role = function.getArgAttrOfType<StringAttr>(index, attr::kRole);
    if (role.getValue() != role::kBuffer)
      continue;
    results.push_back(value);
    attrs.push_back(b.getDictionaryAttr(
        {b.getNamedAttr(attr::kName, function.getArgAttr(index, attr::kName)),
         b.getNamedAttr(attr::kTies, b.getI64IntegerAttr(index))}));
  }
}

llvm::Error Importer::finish() {
  llvm::SmallVector<Value> results;
  llvm::SmallVector<Type> types;
  llvm::SmallVector<DictionaryAttr> attrs;
  Builder b(context);
  bool lossFound = false;
  for (const auto &output : file.model().graph().output()) {
    Val value = lookup(output.name());
    if (!value)
      return makeError(file.path() + ": output '" + output.name() +
                       "' is not defined by any supported node");
    if (value.parts)
      return makeError(file.path() + ": output '" + output.name() +
                       "' is a sequence; accepted: tensors");
    NamedAttrList resultAttrs;
    resultAttrs.append(attr::kName, b.getStringAttr(output.name()));
    if (!lossFound && value.isFloat() && value.rank() == 0) {
      resultAttrs.append(attr::kLoss, b.getUnitAttr());
      lossFound = true;
    }
    results.push_back(emit.materialize(value));
    attrs.push_back(resultAttrs.getDictionary(context));
  }
  addUpdates(results, attrs);
  for (Value result : results)
    types.push_back(result.getType());
  func::ReturnOp::create(emit.builder, function.getLoc(), results);
  function.setFunctionType(
      b.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attrs);
  return llvm::Error::success();
}

} // namespace dpc::frontend

using namespace dpc;

static mlir::FailureOr<OwningOpRef<ModuleOp>>
importModel(llvm::Expected<std::unique_ptr<frontend::ModelFile>> model,
            llvm::StringRef file, MLIRContext &context,
            const ImportOptions &options) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  auto fail = [&](llvm::Error error) -> mlir::FailureOr<OwningOpRef<ModuleOp>> {
    emitError(NameLoc::get(StringAttr::get(&context, file)))
        << llvm::toString(std::move(error));
    return failure();
  };
  if (!model)
    return fail(model.takeError());
  auto module = frontend::Importer(**model, &context, options).run();
  if (!module)
    return fail(module.takeError());
  if (failed(mlir::verify(**module)))
    return failure();
  return std::move(*module);
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
