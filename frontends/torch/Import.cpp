//===- Import.cpp - Import of .pt2 files into dpc modules -----------------===//
#include "frontends/torch/Import.h"
#include "frontends/emit/Forward.h"
#include "frontends/torch/Complex.h"
#include "frontends/torch/Liveness.h"
#include "frontends/torch/ProgramRemarks.h"
#include "frontends/torch/Unsupported.h"
#include "frontends/torch/Views.h"
#include "frontends/torch/Weights.h"
#include "frontends/torch/ops/Recurrent.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

/// A larger tensor is an error in the file.
static constexpr int64_t kMaxElements = int64_t(1) << 48;

static const OperatorTable &operatorTable() {
  static const OperatorTable table = [] {
    OperatorTable t;
    addComplex(t);
    addComposed(t);
    addConstructors(t);
    addContractions(t);
    addElementwise(t);
    addIndexing(t);
    addLosses(t);
    addMovement(t);
    addRandom(t);
    addRecurrent(t);
    addRows(t);
    addSampling(t);
    addScatter(t);
    addSpatial(t);
    addSpectral(t);
    addSymbolic(t);
    addWindows(t);
    addAliases(t);
    return t;
  }();
  return table;
}

namespace {

struct Body {
  const Graph &graph;
  Values &values;
  Views views;
  const llvm::StringMap<size_t> &lastUse;
};

constexpr llvm::StringLiteral kPureAdvice =
    "; exported_program.run_decompositions({}) before torch.export.save "
    "removes such writes";

class Importer {
public:
  Importer(const Archive &archive, const Program &program, MLIRContext *context,
           const ImportOptions &options)
      : archive(archive), program(program), context(context), options(options),
        forward(archive.path(), context), emit(forward.emit),
        live(findLive(program)) {
    emit.dropoutSeed = options.seed;
    emit.evaluates = options.evaluates;
  }

  llvm::Expected<OwningOpRef<ModuleOp>> run();

private:
  llvm::Expected<std::vector<DeclaredInput>> declaredInputs();
  llvm::Error begin();
  llvm::Error convertNodes();
  llvm::Error convertNode(Body &body, const Node &node, size_t index);
  llvm::Error checkResults(const Graph &graph, const Node &node,
                           llvm::ArrayRef<Val> results);
  static const Operator *operatorOf(const Node &node);
  llvm::Error refresh(Body &body, llvm::StringRef name);
  bool isReadLater(const Body &body, llvm::StringRef name, size_t index) const;
  std::string whyConstant(llvm::StringRef input) const;
  llvm::Error checkChanges(const Body &body, const Node &node) const;
  llvm::Error noteNext(llvm::StringRef input, const Val &value);
  llvm::Error write(Body &body, llvm::StringRef target, size_t index,
                    Val value);
  llvm::Error finishWrites(Body &body, const Node &node, size_t index,
                           Call &call);
  llvm::Expected<OwningOpRef<ModuleOp>> finish();
  bool hasLoss() const;

  llvm::Error nodeError(const Node &node, size_t index,
                        const llvm::Twine &why) const {
    return makeError("{0}: node {1} '{2}': {3}: {4}", archive.path(), index,
                     node.name, node.target, why);
  }

  const Archive &archive;
  const Program &program;
  MLIRContext *context;
  const ImportOptions &options;
  Forward forward;
  Emitter &emit;
  Liveness live;
  Values main;
  /// The program's inputs that are arguments of @forward, by value.
  llvm::StringMap<BlockArgument> arguments;
};

} // namespace

llvm::Expected<std::vector<DeclaredInput>> Importer::declaredInputs() {
  std::vector<DeclaredInput> inputs;
  for (const InputSpec &spec : program.inputs) {
    if (spec.kind == InputSpec::Kind::Other)
      return makeError(
          "{0}: an input of kind '{1}' is not supported; accepted: tensors",
          archive.path(), spec.name);
    if (spec.kind != InputSpec::Kind::User || spec.value.empty())
      continue;
    std::string what = archive.path() + ": input '" + spec.value + "' ";
    auto meta = program.graph.tensors.find(spec.value);
    if (meta == program.graph.tensors.end())
      return makeError("{0}is not described", what);
    Type element = elementOf(meta->second.dtype, context);
    if (!element)
      return makeError(
          "{0}has elements of {1}, which is not supported; accepted: FLOAT, "
          "HALF, BFLOAT16, DOUBLE, LONG, INT, BOOL",
          what, dtypeText(meta->second.dtype));
    DeclaredInput input{spec.value, element, {}};
    for (const auto &[d, size] : llvm::enumerate(meta->second.sizes)) {
      InputDim dim{size.symbol(), size.value};
      // If a size is an expression of symbols, `--bind` sets it as INPUT.D.
      if (!size.expression.empty() && dim.symbol.empty())
        dim.symbol = spec.value + "." + std::to_string(d);
      if (size.expression.empty() && size.value <= 0)
        return makeError("{0}has size {1} in dimension {2}", what, size.value,
                         d);
      input.dims.push_back(dim);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// Lets `--bind` accept INPUT.D for the symbol of a dimension, because the file
/// does not contain the symbol names that the user chose.
static llvm::Expected<ImportOptions>
withPlaces(const ImportOptions &options, llvm::ArrayRef<DeclaredInput> inputs) {
  ImportOptions result = options;
  for (const DeclaredInput &input : inputs)
    for (const auto &[d, dim] : llvm::enumerate(input.dims)) {
      std::string place = input.name + "." + std::to_string(d);
      auto given = options.bind.find(place);
      if (given == options.bind.end() || dim.symbol.empty() ||
          dim.symbol == place)
        continue;
      auto [entry, isNew] = result.bind.try_emplace(dim.symbol, given->second);
      if (entry->second != given->second)
        return makeError("--bind={0}={1} contradicts a size of {2}", place,
                         given->second, entry->second);
      result.bind.erase(place);
    }
  return result;
}

llvm::Error Importer::begin() {
  auto declared = declaredInputs();
  if (!declared)
    return declared.takeError();
  auto places = withPlaces(options, *declared);
  if (!places)
    return places.takeError();
  auto inputs = bindInputs(archive.path(), std::move(*declared), *places);
  if (!inputs)
    return inputs.takeError();
  for (const BoundInput &input : *inputs)
    if (numElements(input.type.getShape()) > kMaxElements)
      return makeError("{0}: input '{1}' is too large", archive.path(),
                       input.name);
  auto weights = placeWeights(
      archive, program,
      [&](llvm::StringRef name) { return live.values.contains(name); },
      [&](llvm::StringRef name) { return live.changed.contains(name); },
      options, context);
  if (!weights)
    return weights.takeError();
  llvm::StringMap<Val> values =
      forward.begin(weights->arguments, *inputs, weights->constantNames);
  forward.noteUnread(weights->unread);
  for (const std::vector<std::string> &remarks :
       {weights->remarks, remarksOn(program, live, options)})
    for (const std::string &remark : remarks)
      emitRemark(UnknownLoc::get(context)) << remark;
  for (const auto &[value, name] : weights->bound)
    main[value] = values[name];
  for (auto &[value, constant] : weights->constants)
    main[value] = constant;
  for (const BoundInput &input : *inputs)
    main[input.name] = values[input.name];
  for (const InputSpec &input : program.inputs)
    if (auto argument =
            dyn_cast_if_present<BlockArgument>(main.lookup(input.value).value))
      arguments[input.value] = argument;
  return llvm::Error::success();
}

bool Importer::hasLoss() const {
  if (options.appendsLoss)
    return true;
  for (const OutputSpec &output : program.outputs) {
    if (output.kind != OutputSpec::Kind::User || output.value.names.empty())
      continue;
    auto meta = program.graph.tensors.find(output.value.names[0]);
    if (meta != program.graph.tensors.end() && meta->second.sizes.empty() &&
        isFloatType(meta->second.dtype))
      return true;
  }
  return false;
}

llvm::Error Importer::convertNodes() {
  const Graph &graph = program.graph;
  if (llvm::Error error =
          checkSupported(program, live, archive.path(), [](const Node &node) {
            return operatorOf(node) != nullptr;
          }))
    return error;
  Body body{graph, main, Views(graph), live.lastUse};
  for (const auto &[index, node] : llvm::enumerate(graph.nodes))
    if (live.nodes[index])
      if (llvm::Error error = convertNode(body, node, index))
        return error;
  return llvm::Error::success();
}

llvm::Error Importer::checkResults(const Graph &graph, const Node &node,
                                   llvm::ArrayRef<Val> results) {
  for (const auto &[name, result] : llvm::zip(node.outputs, results)) {
    if (!result || result.parts)
      continue;
    if (numElements(result.shape()) > kMaxElements)
      return makeError("the result {0} is too large", result);
    auto meta = graph.tensors.find(name);
    if (meta == graph.tensors.end())
      continue;
    const std::vector<Size> &sizes = meta->second.sizes;
    bool agrees = static_cast<int64_t>(sizes.size()) == result.rank() &&
                  elementOf(meta->second.dtype, context) == result.element();
    for (size_t d = 0; agrees && d < sizes.size(); ++d)
      agrees = !sizes[d].expression.empty() ||
               sizes[d].value == result.dim(static_cast<int64_t>(d));
    Type stated = elementOf(meta->second.dtype, context);
    if (!agrees && stated && stated != result.element() &&
        isa<FloatType>(stated) && result.isFloat())
      return makeError("the result is {0}, but the file states {1}; was the "
                       "model exported with autocast? dpc narrows types with "
                       "--precision: export the model without autocast",
                       result, dtypeText(meta->second.dtype));
    if (!agrees)
      return makeError("the result is {0}, but the file states another type",
                       result);
  }
  return llvm::Error::success();
}

llvm::Error Importer::refresh(Body &body, llvm::StringRef name) {
  const Views::Link &link = *body.views.linkOf(name);
  const Node &maker = *link.maker;
  if (!pureForm(maker.target).empty()) {
    body.values[name] = body.values[link.base];
    return llvm::Error::success();
  }
  const Operator *op = operatorOf(maker);
  Call call(emit, body.graph, maker, op->signature, body.values);
  call.trains = hasLoss();
  op->convert(call);
  if (emit.failed())
    return makeError(emit.error);
  body.values[name] = call.results[link.result];
  return llvm::Error::success();
}

bool Importer::isReadLater(const Body &body, llvm::StringRef name,
                           size_t index) const {
  auto use = body.lastUse.find(name);
  if (use != body.lastUse.end() && use->second > index)
    return true;
  // The next step reads a changed buffer.
  return live.changed.contains(name) &&
         llvm::any_of(program.inputs, [&](const InputSpec &input) {
           return input.value == name;
         });
}

/// Also updates all values that share the memory and are read later.
llvm::Error Importer::write(Body &body, llvm::StringRef target, size_t index,
                            Val value) {
  const Views &views = body.views;
  // Dropout in place writes nothing new in evaluation mode.
  if (Val &old = body.values[target]; value.value && value.value == old.value)
    return llvm::Error::success();
  body.values[target] = std::move(value);
  llvm::SmallVector<llvm::StringRef> others;
  for (const std::string &name : views.sharing(target)) {
    if (name == target || !body.values.contains(name) ||
        !isReadLater(body, name, index))
      continue;
    others.push_back(name);
    if (!views.isCertain(name) || !views.isCertain(target))
      return makeError(
          "writes to '{0}', but it is unknown whether '{1}' is a copy of it{2}",
          target, name, kPureAdvice);
  }
  if (others.empty())
    return llvm::Error::success();
  llvm::StringRef last = target;
  llvm::StringSet<> done = {target}, stale;
  for (const Views::Link *link = views.linkOf(target); link;
       link = views.linkOf(link->base)) {
    Call maker(emit, body.graph, *link->maker,
               operatorOf(*link->maker)->signature, body.values);
    maker.trains = hasLoss();
    Val &base = body.values[link->base];
    base = writtenBack(maker, base, body.values[last]);
    if (emit.failed())
      return makeError("{0}{1}", emit.error, kPureAdvice);
    last = link->base;
    done.insert(last);
  }
  for (llvm::StringRef name : others)
    for (; !done.contains(name); name = views.linkOf(name)->base)
      stale.insert(name);
  for (const std::string &name : views.sharing(target))
    if (stale.contains(name))
      if (llvm::Error error = refresh(body, name))
        return error;
  return llvm::Error::success();
}

/// Says why the program must not change an input of the graph, or "" if it is a
/// buffer or a value that the graph computes.
std::string Importer::whyConstant(llvm::StringRef input) const {
  auto spec = llvm::find_if(program.inputs, [&](const InputSpec &candidate) {
    return candidate.value == input;
  });
  if (spec == program.inputs.end())
    return "";
  if (spec->kind == InputSpec::Kind::User)
    return formatted("changes the input '{0}', and a step only reads its "
                     "batch; change a copy, {0} = {0}.clone()",
                     input);
  if (spec->kind == InputSpec::Kind::Constant)
    return formatted("changes the tensor '{0}', which is neither a parameter "
                     "nor a buffer; make it one with register_buffer",
                     spec->name);
  BlockArgument argument = arguments.lookup(input);
  if (argument && roleOf(argument) == role::kParameter) {
    // --trainable takes precedence over --frozen.
    std::string more =
        options.trainable.empty() ? "" : ", and leave it out of --trainable";
    return formatted(
        "changes the weight '{0}', which the optimizer trains; "
        "compute a new tensor from it instead, or {1}",
        spec->name,
        spec->kind == InputSpec::Kind::Buffer
            ? "leave this buffer out of --trainable"
            : "exclude it from training with --frozen=" + spec->name + more);
  }
  for (const InputSpec &other : program.inputs)
    if (argument && other.value != input && live.values.contains(other.value) &&
        arguments.lookup(other.value) == argument)
      return formatted("changes the buffer '{0}', which is the same tensor as "
                       "'{1}'; read and change it by one name",
                       spec->name, other.name);
  return "";
}

llvm::Error Importer::checkChanges(const Body &body, const Node &node) const {
  for (llvm::StringRef name : changedBy(node))
    if (std::string why = whyConstant(body.views.rootOf(name)); !why.empty())
      return makeError(why);
  return llvm::Error::success();
}

/// Makes `value` the next value of a buffer. Does nothing for other values.
llvm::Error Importer::noteNext(llvm::StringRef input, const Val &value) {
  BlockArgument argument = arguments.lookup(input);
  if (!argument || !value || value.value == argument)
    return llvm::Error::success();
  if (value.type() != argument.getType())
    return makeError("the next value of '{0}' is {1}, expected {2}", input,
                     value, Val(argument));
  emit.updates[argument] = emit.materialize(value);
  return llvm::Error::success();
}

/// Writes the result of an in-place operator to its first argument, and the
/// other values that the operator changes.
llvm::Error Importer::finishWrites(Body &body, const Node &node, size_t index,
                                   Call &call) {
  if (writesFirst(node) && !call.results.empty() && call.results[0])
    if (llvm::Error error =
            write(body, node.inputs[0].second.names[0], index, call.results[0]))
      return error;
  for (auto &[name, value] : call.written)
    if (llvm::Error error = write(body, name, index, value))
      return error;
  for (llvm::StringRef name : changedBy(node)) {
    llvm::StringRef root = body.views.rootOf(name);
    if (llvm::Error error = noteNext(root, body.values[root]))
      return error;
  }
  return llvm::Error::success();
}

/// Looks up in-place targets by their pure form, unless the table has them;
/// null if there is none.
const Operator *Importer::operatorOf(const Node &node) {
  std::string pure = pureForm(node.target);
  for (llvm::StringRef target :
       {llvm::StringRef(node.target), llvm::StringRef(pure)}) {
    target.consume_front("aten.");
    auto found = operatorTable().find(target);
    if (found != operatorTable().end())
      return &found->second;
  }
  return nullptr;
}

llvm::Error Importer::convertNode(Body &body, const Node &node, size_t index) {
  const Graph &graph = body.graph;
  for (const std::string &name : node.outputs)
    if (auto meta = graph.tensors.find(name); meta != graph.tensors.end())
      for (const Size &size : meta->second.sizes)
        if (size.dependsOnData())
          return nodeError(
              node, index,
              "returns a tensor whose shape depends on data, which "
              "is not supported; compute every position and mask "
              "with torch.where");
  const Operator *op = operatorOf(node);
  emit.loc = NameLoc::get(
      StringAttr::get(context, node.name.empty() ? node.target : node.name));
  if (llvm::Error error = checkChanges(body, node))
    return nodeError(node, index, llvm::toString(std::move(error)));
  Call call(emit, graph, node, op->signature, body.values);
  call.trains = hasLoss();
  call.checkArguments();
  if (bool isComplex = readsComplex(node, body.values);
      isComplex && writesFirst(node))
    emit.fail("writes to a complex tensor, which is not supported; make a new "
              "one");
  else if (isComplex)
    convertComplex(call, *op, body.values);
  else if (!emit.failed())
    op->convert(call);
  if (emit.failed())
    return nodeError(node, index, emit.error);
  bool writes = writesFirst(node) && !call.results.empty() && call.results[0];
  if (writes)
    call.results[0] = emit.convert(
        call.results[0], body.values[node.inputs[0].second.names[0]].element());
  if (writes && node.stopsGradients && call.trains) {
    // Under no_grad, PyTorch keeps the gradient of the value before the write.
    if (reachesParameter(body.values[node.inputs[0].second.names[0]]))
      return nodeError(node, index,
                       "writes, under torch.no_grad(), to a tensor with "
                       "gradients; write outside of it, or create a new "
                       "tensor");
    call.results[0] = withoutGradient(emit, call.results[0]);
  }
  if (llvm::Error error = checkResults(graph, node, call.results))
    return nodeError(node, index, llvm::toString(std::move(error)));
  if (llvm::Error error = finishWrites(body, node, index, call))
    return nodeError(node, index, llvm::toString(std::move(error)));
  for (const auto &[name, result] : llvm::zip(node.outputs, call.results))
    if (!name.empty() && result)
      body.values[name] = result;
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::finish() {
  std::vector<NamedResult> results;
  llvm::StringSet<> names;
  llvm::StringMap<llvm::StringRef> values;
  for (const InputSpec &input : program.inputs)
    values[input.name.empty() ? input.value : input.name] = input.value;
  for (const OutputSpec &output : program.outputs) {
    if (output.kind == OutputSpec::Kind::Other)
      return makeError("{0}: an output of kind '{1}' is not supported; "
                       "accepted: user outputs, losses and changed buffers",
                       archive.path(), output.what);
    if (output.kind == OutputSpec::Kind::Mutation) {
      llvm::StringRef input = values.lookup(output.changed);
      if (!live.changed.contains(input))
        continue;
      if (std::string why = whyConstant(input); !why.empty())
        return makeError("{0}: node '{1}': {2}", archive.path(),
                         output.value.names[0], why);
      if (llvm::Error error =
              noteNext(input, main.lookup(output.value.names[0])))
        return std::move(error);
      continue;
    }
    if (output.value.kind != Argument::Kind::Tensor)
      continue;
    const std::string &value = output.value.names[0];
    std::string name = output.key.empty() ? value : output.key;
    while (!names.insert(name).second)
      name += "_";
    Val result = main.lookup(value);
    if (result.parts)
      return makeError("{0}: the output '{1}' is complex, which is not "
                       "supported; return torch.view_as_real of it",
                       archive.path(), name);
    results.push_back({std::move(name), result});
  }
  if (results.empty())
    return makeError("{0}: the program returns no tensor", archive.path());
  return forward.finish(results, options.lossOutput);
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::run() {
  if (llvm::Error error = begin())
    return std::move(error);
  if (llvm::Error error = convertNodes())
    return std::move(error);
  return finish();
}

static llvm::Expected<OwningOpRef<ModuleOp>>
importArchive(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
              MLIRContext *context, const ImportOptions &options) {
  auto archive = Archive::open(std::move(bytes), file);
  if (!archive)
    return archive.takeError();
  auto program = readProgram(**archive);
  if (!program)
    return program.takeError();
  if (llvm::Error error = inlineCalls(program->graph, (*archive)->path()))
    return std::move(error);
  return Importer(**archive, *program, context, options).run();
}

} // namespace dpc::frontend::pt2

using namespace dpc;

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importTorch(std::unique_ptr<llvm::MemoryBuffer> bytes,
                 llvm::StringRef file, MLIRContext &context,
                 const ImportOptions &options) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  return frontend::verified(
      frontend::pt2::importArchive(std::move(bytes), file, &context, options),
      file, context);
}

mlir::FailureOr<OwningOpRef<ModuleOp>>
dpc::importTorch(llvm::StringRef file, MLIRContext &context,
                 const ImportOptions &options) {
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return frontend::verified(frontend::makeError("{0}: cannot read: {1}", file,
                                                  buffer.getError().message()),
                              file, context);
  return importTorch(std::move(*buffer), file, context, options);
}
