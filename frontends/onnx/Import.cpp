//===- Import.cpp - Import of ONNX files into dpc modules -----------------===//
#include "frontends/onnx/Import.h"
#include "frontends/emit/Forward.h"
#include "frontends/onnx/ExternalFiles.h"
#include "frontends/onnx/NodeContext.h"
#include "frontends/onnx/Roles.h"
#include "frontends/onnx/Shardings.h"
#include "frontends/onnx/ValueNames.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend {

static constexpr int64_t kMinOpset = 1;
static constexpr int64_t kMaxOpset = 27;

/// Every iteration is unrolled, so longer loops would take too long to compile.
static constexpr int64_t kMaxIterations = 1024;

static const OpTable &opTable() {
  static const OpTable table = [] {
    OpTable t;
    addAttentionOps(t);
    addElementwiseOps(t);
    addIndexingOps(t);
    addMovementOps(t);
    addQuantizedOps(t);
    addRecurrentOps(t);
    addResizeOps(t);
    addRowOps(t);
    addShapeOps(t);
    addSpatialOps(t);
    return t;
  }();
  return table;
}

static bool isDataDependent(llvm::StringRef op) {
  return op == "NonZero" || op == "Unique" || op == "Compress" ||
         op == "NonMaxSuppression";
}

static bool isDefaultDomain(const ::onnx::NodeProto &node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

static bool isKnown(const ::onnx::NodeProto &node) {
  llvm::StringRef op = node.op_type();
  return isDefaultDomain(node) &&
         (op == "If" || op == "Loop" || op == "Scan" || opTable().contains(op));
}

namespace {

class Importer {
public:
  Importer(const ModelFile &file, MLIRContext *context,
           const ImportOptions &options)
      : file(file), context(context), options(options),
        forward(file.path(), context), emit(forward.emit) {
    emit.dropoutSeed = options.seed;
    emit.evaluates = options.evaluates;
  }

  llvm::Expected<OwningOpRef<ModuleOp>> run();

  const llvm::StringMap<Val> &values() const { return scopes.front(); }

private:
  using Scope = llvm::StringMap<Val>;

  llvm::Error createFunction(llvm::ArrayRef<Weight> weights,
                             llvm::ArrayRef<BoundInput> inputs);
  llvm::Error convertNodes(llvm::ArrayRef<FlatNode> nodes);
  llvm::Error convertNode(const FlatNode &node);
  llvm::Error convertIf(const FlatNode &node);
  llvm::Error convertLoop(const FlatNode &node);
  llvm::Error convertScan(const FlatNode &node);
  llvm::Expected<std::vector<Val>> runBody(const ::onnx::GraphProto &body,
                                           const FlatNode &node,
                                           llvm::ArrayRef<Val> inputs);
  void setOutputs(const FlatNode &node, llvm::ArrayRef<Val> results);
  std::optional<int64_t> knownInput(const ::onnx::NodeProto &proto,
                                    int i) const;
  llvm::Expected<OwningOpRef<ModuleOp>> finish();

  Val lookup(llvm::StringRef name) const;
  llvm::Error nodeError(const FlatNode &node, const llvm::Twine &why) const;
  std::string otherUnsupported(llvm::StringRef op) const;

  const ModelFile &file;
  MLIRContext *context;
  const ImportOptions &options;
  Forward forward;
  Emitter &emit;
  std::vector<Scope> scopes = std::vector<Scope>(1);
  std::vector<std::string> unknown; ///< unsupported operators, each once
};

} // namespace

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

/// Exporters write "?" for an unknown size.
static bool isNamed(const ::onnx::TensorShapeProto::Dimension &size) {
  return !size.dim_param().empty() && size.dim_param() != "?";
}

/// Excludes initializers. Dimensions without a name are called INPUT.D.
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
      return makeError("{0} is not a tensor of known rank", what);
    DeclaredInput input{
        info.name(), elementTypeOf(tensor.elem_type(), context), {}};
    if (!input.element)
      return makeError("{0} has elements of {1}, which is not supported; "
                       "accepted: floats, integers and booleans",
                       what, onnxTypeName(tensor.elem_type()));
    for (const auto &[d, size] : llvm::enumerate(tensor.shape().dim())) {
      InputDim dim;
      if (size.has_dim_value() && size.dim_value() >= 0)
        dim.size = size.dim_value();
      else if (isNamed(size))
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
    return makeError(
        "{0}: operator set {1} is not supported; accepted: {2} to {3}",
        file.path(), opset, kMinOpset, kMaxOpset);
  if (model.graph().sparse_initializer_size())
    return makeError("{0}: sparse initializers are not supported", file.path());
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
  llvm::StringSet<> seen;
  for (const FlatNode &node : nodes)
    if (const std::string &op = node.proto.op_type();
        !isKnown(node.proto) && seen.insert(op).second)
      unknown.push_back(op);
  if (llvm::Error error = convertNodes(nodes))
    return std::move(error);
  return finish();
}

llvm::Error Importer::nodeError(const FlatNode &node,
                                const llvm::Twine &why) const {
  std::string name = node.proto.name();
  if (name.empty() && node.proto.output_size())
    name = node.proto.output(0);
  return makeError("{0}: node {1} '{2}': {3}", file.path(), node.index, name,
                   why);
}

llvm::Error Importer::createFunction(llvm::ArrayRef<Weight> weights,
                                     llvm::ArrayRef<BoundInput> inputs) {
  std::vector<WeightArgument> arguments;
  std::vector<std::string> constants;
  for (const Weight &weight : weights) {
    const std::string &name = weight.tensor->name();
    if (weight.role == WeightRole::Parameter ||
        weight.role == WeightRole::Buffer)
      arguments.push_back({name,
                           weight.type,
                           weight.role == WeightRole::Parameter,
                           weight.data,
                           {},
                           weight.isUnsaved,
                           weight.isFrozen});
    else if (weight.role == WeightRole::Constant &&
             isa<FloatType>(weight.type.getElementType()))
      constants.push_back(name);
  }
  scopes.front() = forward.begin(arguments, inputs, constants);
  llvm::StringSet<> read;
  for (const WeightArgument &argument : arguments)
    read.insert(argument.name);
  std::vector<std::string> unread;
  for (const ::onnx::TensorProto &tensor : file.model().graph().initializer())
    if (!read.contains(tensor.name()))
      unread.push_back(tensor.name());
  forward.noteUnread(unread);
  for (const Weight &weight : weights) {
    if (weight.role != WeightRole::Constant)
      continue;
    auto value = file.decode(*weight.tensor, context);
    if (!value)
      return makeError("{0}: {1}", file.path(),
                       llvm::toString(value.takeError()));
    scopes.front()[weight.tensor->name()] = Val(std::move(*value));
  }
  return llvm::Error::success();
}

Val Importer::lookup(llvm::StringRef name) const {
  for (const Scope &scope : llvm::reverse(scopes)) {
    auto found = scope.find(name);
    if (found != scope.end())
      return found->second;
  }
  return {};
}

std::string Importer::otherUnsupported(llvm::StringRef op) const {
  constexpr size_t kMax = 20;
  std::string text;
  size_t others = 0;
  for (const std::string &other : unknown)
    if (other != op && others++ < kMax)
      text += (text.empty() ? "; also not supported: " : ", ") + other;
  if (others > kMax)
    text += " and " + std::to_string(others - kMax) + " more";
  return text;
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
  bool isDefault = isDefaultDomain(proto);
  if (isDefault && op == "If")
    return convertIf(node);
  if (isDefault && op == "Loop")
    return convertLoop(node);
  if (isDefault && op == "Scan")
    return convertScan(node);
  if (isDefault && isDataDependent(op))
    return nodeError(node, "operator " + op +
                               " returns a tensor whose shape depends on data, "
                               "which is not supported; use a mask of the full "
                               "shape (Where, Mul) instead");
  auto handler = opTable().find(op);
  if (!isDefault || handler == opTable().end())
    return nodeError(node, "operator " + op + " (domain '" + proto.domain() +
                               "') is not supported" + otherUnsupported(op));
  llvm::SmallVector<Val> inputs;
  for (const std::string &name : proto.input()) {
    inputs.push_back(name.empty() ? Val() : lookup(name));
    if (!name.empty() && !inputs.back())
      return nodeError(node, "input '" + name +
                                 "' is not defined by an earlier node");
    if (inputs.back().parts && !takesSequences(op))
      return nodeError(
          node, "operator " + op + ": input '" + name +
                    "' is a sequence; only SequenceAt, "
                    "SequenceLength and ConcatFromSequence take sequences");
  }
  llvm::StringRef place = proto.name().empty() ? op : proto.name();
  emit.loc = locationOf(context, place,
                        proto.output_size() ? proto.output(0) : std::string());
  NodeContext converted(emit, file, node, std::move(inputs));
  handler->second(converted);
  if (emit.failed())
    return nodeError(node, op + ": " + emit.error);
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty())
      continue;
    if (!converted.outputs[i])
      continue; // optional output; reading it is an error
    Val &output = scopes.back()[proto.output(i)] = converted.outputs[i];
    // The node's location names its first output.
    Operation *maker = output.value ? output.value.getDefiningOp() : nullptr;
    if (i > 0 && maker && maker->getLoc() == emit.loc)
      maker->setLoc(locationOf(context, place, proto.output(i)));
  }
  return llvm::Error::success();
}

static const ::onnx::GraphProto *bodyOf(const ::onnx::NodeProto &node,
                                        llvm::StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name && attribute.has_g())
      return &attribute.g();
  return nullptr;
}

/// Converts a subgraph in a new scope in which `inputs` are defined.
llvm::Expected<std::vector<Val>>
Importer::runBody(const ::onnx::GraphProto &body, const FlatNode &node,
                  llvm::ArrayRef<Val> inputs) {
  auto flat = flatten(file.model(), body, node.opset, node.index);
  if (!flat)
    return flat.takeError();
  scopes.emplace_back();
  for (const auto &initializer : body.initializer()) {
    auto value = file.decode(initializer, context);
    if (!value)
      return nodeError(node, llvm::toString(value.takeError()));
    scopes.back()[initializer.name()] = Val(std::move(*value));
  }
  for (auto [info, value] : llvm::zip(body.input(), inputs))
    scopes.back()[info.name()] = value;
  if (llvm::Error error =
          convertNodes(liveNodes(std::move(*flat), outputNames(body))))
    return std::move(error);
  std::vector<Val> results;
  for (const auto &output : body.output()) {
    results.push_back(lookup(output.name()));
    if (!results.back())
      return nodeError(node, "output '" + output.name() +
                                 "' of the body is not defined");
  }
  scopes.pop_back();
  return results;
}

void Importer::setOutputs(const FlatNode &node, llvm::ArrayRef<Val> results) {
  for (auto [name, value] : llvm::zip(node.proto.output(), results))
    if (!name.empty() && value)
      scopes.back()[name] = value;
}

std::optional<int64_t> Importer::knownInput(const ::onnx::NodeProto &proto,
                                            int i) const {
  Val v = i < proto.input_size() ? lookup(proto.input(i)) : Val();
  if (!v.constant || v.constant->size() != 1)
    return std::nullopt;
  return v.constant->at(0).i;
}

llvm::Error Importer::convertIf(const FlatNode &node) {
  const ::onnx::NodeProto &proto = node.proto;
  std::optional<int64_t> condition = knownInput(proto, 0);
  if (!condition)
    return nodeError(node, "operator If: condition '" +
                               (proto.input_size() ? proto.input(0) : "") +
                               "' is computed from data; accepted: conditions "
                               "known at compile time");
  llvm::StringRef wanted = *condition ? "then_branch" : "else_branch";
  const ::onnx::GraphProto *branch = bodyOf(proto, wanted);
  if (!branch)
    return nodeError(node, "operator If has no " + wanted);
  auto results = runBody(*branch, node, {});
  if (!results)
    return results.takeError();
  setOutputs(node, *results);
  return llvm::Error::success();
}

static Val stacked(Emitter &emit, llvm::ArrayRef<Val> parts, int64_t dim) {
  llvm::SmallVector<Val> wide;
  for (const Val &part : parts) {
    Shape shape(part.shape());
    shape.insert(shape.begin() + dim, 1);
    wide.push_back(emit.reshape(part, shape));
  }
  return emit.concat(wide, dim);
}

llvm::Error Importer::convertLoop(const FlatNode &node) {
  const ::onnx::NodeProto &proto = node.proto;
  const ::onnx::GraphProto *body = bodyOf(proto, "body");
  auto given = [&](int i) {
    return i < proto.input_size() && !proto.input(i).empty();
  };
  std::optional<int64_t> trips = knownInput(proto, 0);
  std::optional<int64_t> running = given(1) ? knownInput(proto, 1) : 1;
  if (!body || (given(0) && !trips) || !running)
    return nodeError(node,
                     "operator Loop: the number of iterations is computed from "
                     "data; it must be known at compile time");
  llvm::SmallVector<Val> carried;
  for (int i = 2; i < proto.input_size(); ++i)
    carried.push_back(lookup(proto.input(i)));
  if (static_cast<size_t>(body->output_size()) < carried.size() + 1)
    return nodeError(node, "operator Loop: the body has too few outputs");
  size_t scans = body->output_size() - 1 - carried.size();
  std::vector<llvm::SmallVector<Val>> collected(scans);
  for (int64_t n = 0; *running && (!trips || n < *trips); ++n) {
    if (n == kMaxIterations)
      return nodeError(node, "operator Loop runs more than " +
                                 llvm::Twine(kMaxIterations) + " times");
    llvm::SmallVector<Val> inputs = {
        Val(reshapeTo(ConstTensor::ints(context, {n}), {})),
        emit.scalar(1, emit.builder.getI1Type())};
    inputs.append(carried);
    auto results = runBody(*body, node, inputs);
    if (!results)
      return results.takeError();
    if (!results->front().constant)
      return nodeError(node, "operator Loop: the condition is computed "
                             "from data; it must be known at compile "
                             "time");
    running = results->front().constant->at(0).i;
    carried.assign(results->begin() + 1, results->end() - scans);
    for (auto [list, value] :
         llvm::zip(collected, llvm::ArrayRef(*results).take_back(scans)))
      list.push_back(value);
  }
  for (auto &list : collected) {
    if (list.empty())
      return nodeError(node, "operator Loop runs 0 times and collects nothing");
    carried.push_back(stacked(emit, list, 0));
  }
  setOutputs(node, carried);
  return llvm::Error::success();
}

/// Returns entry `n` of the list attribute `name`, or 0.
static int64_t entryOf(const ::onnx::NodeProto &node, llvm::StringRef name,
                       size_t n) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name &&
        n < static_cast<size_t>(attribute.ints_size()))
      return attribute.ints(static_cast<int>(n));
  return 0;
}

/// Copies the body once per position of the scanned dimensions.
llvm::Error Importer::convertScan(const FlatNode &node) {
  const ::onnx::NodeProto &proto = node.proto;
  const ::onnx::GraphProto *body = bodyOf(proto, "body");
  int64_t scans = 0;
  for (const auto &attribute : proto.attribute())
    if (attribute.name() == "num_scan_inputs")
      scans = attribute.i();
  if (!body || node.opset < 9 || scans < 1 || scans > proto.input_size())
    return nodeError(node, "operator Scan needs a body, scanned inputs and "
                           "operator set 9 or newer");
  llvm::SmallVector<Val> all;
  for (const std::string &name : proto.input())
    all.push_back(lookup(name));
  llvm::SmallVector<Val> carried(llvm::ArrayRef(all).drop_back(scans));
  llvm::ArrayRef<Val> scanned = llvm::ArrayRef(all).take_back(scans);
  if (static_cast<size_t>(body->output_size()) < carried.size() ||
      llvm::any_of(all, [](const Val &v) { return !v || v.parts; }))
    return nodeError(node, "operator Scan needs tensors, and an output of "
                           "the body for each state");
  auto axisOf = [&](llvm::StringRef name, size_t n, int64_t rank) {
    int64_t axis = entryOf(proto, name, n);
    return axis < 0 ? axis + rank : axis;
  };
  int64_t steps =
      scanned[0].dim(axisOf("scan_input_axes", 0, scanned[0].rank()));
  if (steps < 1 || steps > kMaxIterations)
    return nodeError(node, "operator Scan runs " + llvm::Twine(steps) +
                               " times; accepted: 1 to " +
                               llvm::Twine(kMaxIterations));
  std::vector<llvm::SmallVector<Val>> collected(body->output_size() -
                                                carried.size());
  for (int64_t t = 0; t < steps; ++t) {
    llvm::SmallVector<Val> inputs(carried);
    for (auto [n, value] : llvm::enumerate(scanned)) {
      int64_t axis = axisOf("scan_input_axes", n, value.rank());
      bool back = entryOf(proto, "scan_input_directions", n) != 0;
      Shape shape(value.shape());
      shape.erase(shape.begin() + axis);
      inputs.push_back(emit.reshape(
          emit.sliceDim(value, axis, back ? steps - 1 - t : t, 1), shape));
    }
    auto results = runBody(*body, node, inputs);
    if (!results)
      return results.takeError();
    for (auto [list, value] : llvm::zip(
             collected, llvm::ArrayRef(*results).drop_front(carried.size())))
      list.push_back(value);
    carried.assign(results->begin(), results->begin() + carried.size());
  }
  for (auto [n, list] : llvm::enumerate(collected)) {
    if (entryOf(proto, "scan_output_directions", n))
      std::reverse(list.begin(), list.end());
    carried.push_back(stacked(
        emit, list, axisOf("scan_output_axes", n, list.front().rank() + 1)));
  }
  setOutputs(node, carried);
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::finish() {
  std::vector<NamedResult> results;
  for (const auto &output : file.model().graph().output())
    results.push_back({output.name(), lookup(output.name())});
  auto module = forward.finish(results, options.lossOutput);
  if (!module)
    return module.takeError();
  if (llvm::Error error = keepShardings(file, values(), **module))
    return std::move(error);
  return module;
}

} // namespace dpc::frontend

using namespace dpc;

static mlir::FailureOr<OwningOpRef<ModuleOp>>
importModel(llvm::Expected<std::unique_ptr<frontend::ModelFile>> model,
            llvm::StringRef file, MLIRContext &context,
            const ImportOptions &options) {
  if (!model)
    return frontend::verified(model.takeError(), file, context);
  return importOnnx(**model, context, options);
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importOnnx(const frontend::ModelFile &model, MLIRContext &context,
                const ImportOptions &options, llvm::StringMap<Value> *values) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  frontend::Importer importer(model, &context, options);
  auto module = frontend::verified(importer.run(), model.path(), context);
  if (values && succeeded(module))
    for (const auto &[name, value] : importer.values())
      if (value.value)
        (*values)[name] = value.value;
  return module;
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importOnnx(llvm::StringRef file, MLIRContext &context,
                const ImportOptions &options) {
  auto model = frontend::ModelFile::open(file);
  if (model)
    for (const std::string &line :
         frontend::overwrittenFiles((*model)->model().graph(), file.str()))
      emitRemark(UnknownLoc::get(&context)) << line;
  return importModel(std::move(model), file, context, options);
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importOnnx(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
                MLIRContext &context, const ImportOptions &options) {
  return importModel(frontend::ModelFile::parse(std::move(bytes), file), file,
                     context, options);
}
