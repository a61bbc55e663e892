//===- Shardings.cpp - Shardings in the imported ONNX model ---------------===//
#include "frontends/onnx/Shardings.h"

#include "frontends/onnx/Specs.h"
#include "ir/Attributes.h"

#include <set>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// An argument of the module and its sharding in the model.
struct Annotated {
  unsigned index = 0;
  std::string name;
  RankedTensorType type;
  bool isInput = false;
  int64_t batchDim = -1;
  std::optional<ReadSpec> spec; ///< of the first node that states one
  bool isLeft = false;          ///< left to the search
};

class Keeper {
public:
  Keeper(const ModelFile &file, const llvm::StringMap<Val> &values,
         ModuleOp made)
      : file(file), values(values), made(made),
        function(*made.getOps<func::FuncOp>().begin()) {}

  llvm::Error run();

private:
  void listArguments();
  llvm::Error readNode(const ::onnx::NodeProto &node, const std::string &what);
  llvm::Error readOne(const ::onnx::ShardingSpecProto &spec,
                      const ::onnx::NodeProto &node, const std::string &what);
  llvm::Error agree(std::optional<int64_t> &degree, int64_t asked,
                    const Annotated &of, const char *what) const;
  llvm::Error findData();
  llvm::Error split(Annotated &argument);
  llvm::Error findStages();
  llvm::Error findSequence();
  void put();

  const ModelFile &file;
  const llvm::StringMap<Val> &values;
  ModuleOp made;
  func::FuncOp function;
  std::vector<Annotated> arguments;
  llvm::StringMap<size_t> byName;
  std::set<int32_t> stages;
  /// Which part of the batch, and of the sequence, each device has.
  std::map<int64_t, int64_t> batchOf, sequenceOf;
  std::optional<int64_t> dp, tp, cp, pp, vpp;
  int64_t inside = 0; ///< number of sharded values that are not arguments
};

} // namespace

void Keeper::listArguments() {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Annotated argument;
    argument.index = i;
    argument.name = function.getArgAttrOfType<StringAttr>(i, attr::kName).str();
    argument.type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    auto role = function.getArgAttrOfType<StringAttr>(i, attr::kRole);
    argument.isInput = role && role.getValue() == role::kInput;
    if (auto dim = function.getArgAttrOfType<IntegerAttr>(i, attr::kBatchDim))
      argument.batchDim = dim.getInt();
    byName[argument.name] = arguments.size();
    arguments.push_back(std::move(argument));
  }
}

static bool hasSame(const ReadSpec &a, const ReadSpec &b) {
  return llvm::equal(a.splits, b.splits, [](const auto &x, const auto &y) {
    return x.dim == y.dim && x.shards == y.shards;
  });
}

llvm::Error Keeper::readOne(const ::onnx::ShardingSpecProto &spec,
                            const ::onnx::NodeProto &node,
                            const std::string &what) {
  const std::string &name = spec.tensor_name();
  if (!llvm::is_contained(node.input(), name) &&
      !llvm::is_contained(node.output(), name))
    return makeError("{0}the sharding spec names '{1}', which is not an input "
                     "or output of the node",
                     what, name);
  Val value = values.lookup(name);
  if (!value || value.parts)
    return llvm::Error::success(); // the node is dead
  auto read =
      readSpec(spec, value.rank(), file.model().configuration(0).num_devices());
  if (!read)
    return makeError("{0}the sharding of '{1}': {2}", what, name,
                     llvm::toString(read.takeError()));
  auto argument = byName.find(name);
  if (argument == byName.end()) {
    inside += !read->splits.empty();
    return llvm::Error::success();
  }
  Annotated &of = arguments[argument->second];
  if (!of.spec)
    of.spec = std::move(*read);
  else if (!hasSame(*of.spec, *read))
    of.isLeft = true;
  return llvm::Error::success();
}

llvm::Error Keeper::readNode(const ::onnx::NodeProto &node,
                             const std::string &what) {
  const auto &known = file.model().configuration();
  for (const auto &configuration : node.device_configurations()) {
    const std::string &id = configuration.configuration_id();
    if (llvm::none_of(known, [&](const auto &c) { return c.name() == id; }))
      return makeError(
          "{0}device configuration '{1}' does not exist in the model{2}", what,
          id,
          (known.empty()
               ? ", which has no configurations"
               : "; the first of them is '" + known.Get(0).name() + "'"));
    if (id != known.Get(0).name())
      continue;
    if (configuration.has_pipeline_stage()) {
      if (configuration.pipeline_stage() < 0)
        return makeError("{0}pipeline stage {1}; accepted: 0 or more", what,
                         configuration.pipeline_stage());
      stages.insert(configuration.pipeline_stage());
    }
    for (const auto &spec : configuration.sharding_spec())
      if (llvm::Error error = readOne(spec, node, what))
        return error;
  }
  return llvm::Error::success();
}

llvm::Error Keeper::agree(std::optional<int64_t> &degree, int64_t asked,
                          const Annotated &of, const char *what) const {
  if (degree && *degree != asked)
    return makeError("{0}: '{1}' shards {2} in {3} parts, but other inputs in "
                     "{4}; accepted: the same number for all inputs",
                     file.path(), of.name, what, asked, *degree);
  degree = asked;
  return llvm::Error::success();
}

/// Computes each device's shard along the splits for which `counts` is true,
/// and returns how many shards these splits have together.
static int64_t
placesOf(const ReadSpec &spec,
         llvm::function_ref<bool(const ReadSpec::Split &)> counts,
         std::map<int64_t, int64_t> &places) {
  int64_t shards = 1;
  for (const ReadSpec::Split &split : spec.splits)
    if (counts(split))
      shards *= split.shards;
  for (const auto &[device, at] : spec.places) {
    int64_t shard = 0;
    for (auto [split, place] : llvm::zip(spec.splits, at))
      if (counts(split))
        shard = shard * split.shards + place;
    places.try_emplace(device, shard);
  }
  return shards;
}

llvm::Error Keeper::findData() {
  for (const Annotated &argument : arguments) {
    if (!argument.isInput || argument.batchDim < 0 || !argument.spec)
      continue;
    auto isBatch = [&](const ReadSpec::Split &split) {
      return split.dim == argument.batchDim;
    };
    int64_t shards = placesOf(*argument.spec, isBatch, batchOf);
    if (llvm::Error error = agree(dp, shards, argument, "the batch"))
      return error;
  }
  return llvm::Error::success();
}

/// Integer inputs are token ids: all dimensions but the batch are positions.
llvm::Error Keeper::findSequence() {
  for (const Annotated &argument : arguments) {
    if (!argument.isInput || !argument.spec ||
        !argument.type.getElementType().isInteger())
      continue;
    auto isSequence = [&](const ReadSpec::Split &split) {
      return split.dim != argument.batchDim;
    };
    std::map<int64_t, int64_t> places;
    int64_t shards = placesOf(*argument.spec, isSequence, places);
    if (shards == 1)
      continue; // for example one number per sample
    if (llvm::Error error = agree(cp, shards, argument, "the sequence"))
      return error;
    sequenceOf.insert(places.begin(), places.end());
  }
  return llvm::Error::success();
}

/// Whether two devices with the same entry in `parts` always have the same
/// shard along `split`.
static bool follows(const ReadSpec &spec, size_t split,
                    const std::map<int64_t, int64_t> &parts) {
  std::map<int64_t, int64_t> shardOf; // of each part
  for (const auto &[device, at] : spec.places) {
    auto part = parts.find(device);
    if (part == parts.end())
      return false;
    auto [entry, isNew] = shardOf.try_emplace(part->second, at[split]);
    if (entry->second != at[split])
      return false;
  }
  return true;
}

llvm::Error Keeper::split(Annotated &argument) {
  Shape dims;
  int64_t shards = 1;
  for (auto [i, split] : llvm::enumerate(argument.spec->splits)) {
    if (argument.isInput && split.dim == argument.batchDim)
      continue;
    if (argument.isInput && argument.type.getElementType().isInteger())
      continue;
    if (follows(*argument.spec, i, sequenceOf))
      continue; // context parallelism
    if (follows(*argument.spec, i, batchOf)) {
      argument.isLeft = true;
      return llvm::Error::success();
    }
    if (!llvm::is_contained(dims, split.dim))
      dims.push_back(split.dim);
    shards *= split.shards;
  }
  // tp is the largest number of shards; a smaller number must divide tp.
  int64_t most = std::max(shards, tp.value_or(1));
  if (most % shards || most % tp.value_or(1))
    return makeError("{0}: '{1}' has {2} shards, but other tensors have {3}; "
                     "accepted: the same number, or a divisor of it",
                     file.path(), argument.name, shards, *tp);
  if (!argument.isInput || shards > 1)
    tp = most;
  function.setArgAttr(argument.index, attr::kUserSplit,
                      Builder(made.getContext()).getDenseI64ArrayAttr(dims));
  return llvm::Error::success();
}

llvm::Error Keeper::findStages() {
  if (stages.empty())
    return llvm::Error::success();
  int64_t devices = file.model().configuration(0).num_devices();
  int64_t count = *stages.rbegin() + 1;
  int64_t inStage = 1; // at most devices + 1
  for (const std::optional<int64_t> &degree : {dp, tp, cp})
    inStage = std::min(inStage * degree.value_or(1), devices + 1);
  int64_t groups = devices / inStage;
  if (devices % inStage || groups < 1 || count % groups)
    return makeError(
        "{0}: {1} pipeline stages do not fit {3} devices, because "
        "the shardings use {2} devices per stage; accepted: a multiple of "
        "{3} / {2} stages, if {2} divides {3}",
        file.path(), count, inStage, devices);
  pp = groups;
  if (count > groups)
    vpp = count / groups;
  return llvm::Error::success();
}

void Keeper::put() {
  Builder b(made.getContext());
  NamedAttrList degrees;
  for (auto [name, degree] :
       {std::pair("dp", dp), std::pair("tp", tp), std::pair("cp", cp),
        std::pair("pp", pp), std::pair("vpp", vpp)})
    if (degree)
      degrees.append(name, b.getI64IntegerAttr(*degree));
  if (!degrees.empty())
    made->setAttr(attr::kUserDegrees, degrees.getDictionary(made.getContext()));
  int64_t left = llvm::count_if(arguments, [](const Annotated &argument) {
    return argument.spec && argument.isLeft;
  });
  if (inside)
    emitRemark(made.getLoc())
        << inside
        << " shardings of values inside the model are left to the search; "
           "those of weights and inputs are kept";
  if (left)
    emitRemark(made.getLoc())
        << left
        << " weights are sharded over the same devices as the batch, or "
           "differently by several nodes; their shardings are left to the "
           "search (zero and ep in --strategy)";
}

llvm::Error Keeper::run() {
  listArguments();
  int64_t index = 0;
  for (const auto &node : file.model().graph().node()) {
    std::string name = node.name();
    if (name.empty() && node.output_size())
      name = node.output(0);
    if (llvm::Error error =
            readNode(node, file.path() + ": node " + std::to_string(index) +
                               " '" + name + "': "))
      return error;
    ++index;
  }
  if (llvm::Error error = findData())
    return error;
  if (llvm::Error error = findSequence())
    return error;
  for (Annotated &argument : arguments)
    if (argument.spec && !argument.isLeft)
      if (llvm::Error error = split(argument))
        return error;
  if (llvm::Error error = findStages())
    return error;
  put();
  return llvm::Error::success();
}

llvm::Error keepShardings(const ModelFile &file,
                          const llvm::StringMap<Val> &values, ModuleOp made) {
  bool any = llvm::any_of(file.model().graph().node(), [](const auto &node) {
    return node.device_configurations_size() > 0;
  });
  if (!any)
    return llvm::Error::success();
  for (const auto &configuration : file.model().configuration())
    if (configuration.num_devices() < 1)
      return makeError("{0}: device configuration '{1}' has {2} devices; "
                       "accepted: 1 or more",
                       file.path(), configuration.name(),
                       configuration.num_devices());
  return Keeper(file, values, made).run();
}

} // namespace dpc::frontend
