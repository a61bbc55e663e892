//===- PlanPorts.cpp - Arguments and results of a step --------------------===//
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

static std::string stringOf(DictionaryAttr attrs, StringRef name) {
  auto value = attrs ? attrs.getAs<StringAttr>(name) : StringAttr();
  return value ? value.getValue().str() : "";
}

/// The global type of an argument or result; its own when it has none.
static RankedTensorType globalOf(DictionaryAttr attrs, Type type) {
  auto global = attrs ? attrs.getAs<TypeAttr>(attr::kGlobal) : TypeAttr();
  return cast<RankedTensorType>(global ? global.getValue() : type);
}

/// The place of every rank where `step` says which axes are innermost.
static std::vector<int> processesOf(func::FuncOp step, const rt::Mesh &mesh) {
  std::vector<int> processes;
  auto placement = step->getAttrOfType<ArrayAttr>(attr::kPlacement);
  if (!placement)
    return processes;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    int64_t process = 0, stride = 1;
    for (auto name : placement.getAsRange<StringAttr>()) {
      std::string axis = name.getValue().str();
      process += mesh.coordinate(axis, rank, 0) * stride;
      stride *= mesh.sizeOf(axis);
    }
    processes.push_back(static_cast<int>(process));
  }
  return processes;
}

LogicalResult PlanBuilder::bindMesh() {
  auto attr = step->getAttrOfType<MeshAttr>(attr::kMesh);
  if (!attr)
    return success();
  rt::Mesh mesh;
  for (auto [name, size] : llvm::zip_equal(attr.getNames(), attr.getSizes())) {
    if (name.getValue() == kMicroBatchAxis)
      mesh.microBatches = size;
    else
      mesh.axes.push_back({name.getValue().str(), size});
  }
  if (auto shares = step->getAttrOfType<DenseI64ArrayAttr>(attr::kBatchShares))
    mesh.batchShares.assign(shares.asArrayRef().begin(),
                            shares.asArrayRef().end());
  if (stage > 0 && mesh != draft.plan.mesh)
    return step.emitError("has another mesh than the stage before");
  draft.plan.mesh = std::move(mesh);
  draft.plan.processes = processesOf(step, draft.plan.mesh);
  return success();
}

static std::vector<int64_t> globalShape(RankedTensorType type) {
  return {type.getShape().begin(), type.getShape().end()};
}

LogicalResult PlanBuilder::bindTensor(unsigned index, DictionaryAttr attrs) {
  BlockArgument argument = step.getArgument(index);
  RankedTensorType global = globalOf(attrs, argument.getType());
  std::string role = stringOf(attrs, attr::kRole);
  bool isState = role == role::kState;
  rt::Tensor tensor;
  tensor.name = stringOf(attrs, attr::kName);
  tensor.of = stringOf(attrs, attr::kOf);
  tensor.slot = stringOf(attrs, attr::kSlot);
  tensor.role = isState                 ? rt::TensorRole::State
                : role == role::kBuffer ? rt::TensorRole::Buffer
                                        : rt::TensorRole::Parameter;
  tensor.buffer =
      addBuffer(cast<RankedTensorType>(argument.getType()),
                isState ? rt::BufferKind::Optimizer : rt::BufferKind::Parameter,
                tensor.name);
  if (failed(bindSpace(attrs, draft.plan.buffers[tensor.buffer])))
    return failure();
  tensor.dtype = draft.plan.buffers[tensor.buffer].dtype;
  tensor.globalShape = globalShape(global);
  tensor.layout = layoutOf(global);
  // A weight that the model has no data for needs --init.
  tensor.init = isState ? rt::InitKind::Zeros : rt::InitKind::Source;
  if (auto init = attrs ? attrs.getAs<FloatAttr>(attr::kInit) : FloatAttr()) {
    tensor.init = rt::InitKind::Value;
    tensor.value = init.getValueAsDouble();
  }
  if (auto source = attrs ? attrs.getAs<DictionaryAttr>(attr::kSource)
                          : DictionaryAttr()) {
    auto offset = source.getAs<IntegerAttr>("offset");
    auto bytes = source.getAs<IntegerAttr>("bytes");
    auto dtype = rt::parseDType(stringOf(source, "dtype"));
    if (!offset || !bytes || !dtype)
      return step.emitError() << "argument " << index << " '" << tensor.name
                              << "': dpc.source needs file, offset, bytes and "
                                 "a dtype such as \"f32\"";
    tensor.source = rt::TensorSource{stringOf(source, "file"), offset.getInt(),
                                     bytes.getInt(), *dtype};
  }
  slots[argument] = {
      tensor.buffer,
      StridedView::dense(
          cast<RankedTensorType>(argument.getType()).getShape())};
  return addTensor(std::move(tensor));
}

/// A tensor of an earlier stage has a copy here.
LogicalResult PlanBuilder::addTensor(rt::Tensor tensor) {
  auto &tensors = draft.plan.tensors;
  auto first = llvm::find_if(tensors, [&](const rt::Tensor &other) {
    return other.name == tensor.name &&
           draft.plan.buffers[other.buffer].stage != stage;
  });
  if (first == tensors.end()) {
    tensors.push_back(std::move(tensor));
    return success();
  }
  if (first->role != tensor.role || first->dtype != tensor.dtype ||
      first->globalShape != tensor.globalShape ||
      first->layout != tensor.layout)
    return step.emitError() << "'" << tensor.name
                            << "' has another role, type or sharding on an "
                               "earlier stage";
  first->copies.push_back(tensor.buffer);
  return success();
}

/// Number of the plan's input `port`, which another stage may read too.
FailureOr<int> PlanBuilder::inputPort(rt::Port port) {
  auto &inputs = draft.plan.inputs;
  auto first = llvm::find_if(inputs, [&](const rt::Port &other) {
    return other.name == port.name &&
           draft.plan.buffers[other.buffer].stage != stage;
  });
  int number = static_cast<int>(first - inputs.begin());
  if (first == inputs.end())
    inputs.push_back(std::move(port));
  else if (first->dtype != port.dtype || first->layout != port.layout ||
           first->globalShape != port.globalShape)
    return step.emitError() << "input '" << port.name
                            << "' has another type or sharding on an earlier "
                               "stage";
  return number;
}

/// Loads at the start of each forward pass; of a step, if setup reads it.
LogicalResult PlanBuilder::bindInput(unsigned index, DictionaryAttr attrs) {
  BlockArgument argument = step.getArgument(index);
  auto type = cast<RankedTensorType>(argument.getType());
  RankedTensorType global = globalOf(attrs, type);
  rt::Port port;
  port.name = stringOf(attrs, attr::kName);
  port.buffer = addBuffer(type, rt::BufferKind::Input, port.name);
  port.dtype = draft.plan.buffers[port.buffer].dtype;
  port.globalShape = globalShape(global);
  port.layout = layoutOf(global);
  slots[argument] = {port.buffer, StridedView::dense(type.getShape())};
  int phase = 1; // the first of the loop
  bool isRead = false;
  std::function<void(Value)> inspect = [&](Value value) {
    for (Operation *user : value.getUsers()) {
      if (isView(user))
        inspect(user->getResult(0));
      else if (!user->hasTrait<mlir::OpTrait::IsTerminator>()) {
        phase = isRead ? std::min(phase, phaseOf(user)) : phaseOf(user);
        isRead = true;
      }
    }
  };
  inspect(argument);
  int buffer = port.buffer;
  std::string name = "load " + port.name;
  FailureOr<int> number = inputPort(std::move(port));
  if (failed(number))
    return failure();
  emit(phase, rt::LoadInputOp{*number, buffer}, name);
  return success();
}

/// The state that counts the steps which `scalar` does not, of this stage;
/// states stand before scalars.
LogicalResult PlanBuilder::bindSkips(DictionaryAttr attrs,
                                     rt::ScalarInput &scalar) {
  std::string name = stringOf(attrs, attr::kSkips);
  if (name.empty())
    return success();
  for (BlockArgument argument : step.getArguments()) {
    DictionaryAttr other = step.getArgAttrDict(argument.getArgNumber());
    if (stringOf(other, attr::kName) != name || !slots.count(argument))
      continue;
    scalar.skips = slots[argument].buffer;
    return success();
  }
  return step.emitError() << "scalar '" << scalar.name << "': dpc.skips names '"
                          << name << "', which is no state before it";
}

LogicalResult PlanBuilder::bindArguments() {
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    DictionaryAttr attrs = step.getArgAttrDict(i);
    std::string role = stringOf(attrs, attr::kRole);
    BlockArgument argument = step.getArgument(i);
    auto type = cast<RankedTensorType>(argument.getType());
    if (role == role::kParameter || role == role::kBuffer ||
        role == role::kState) {
      if (failed(bindTensor(i, attrs)))
        return failure();
    } else if (role == role::kInput) {
      if (failed(bindInput(i, attrs)))
        return failure();
    } else if (role == role::kScalar) {
      std::string name = stringOf(attrs, attr::kName);
      int buffer = addBuffer(type, rt::BufferKind::Scalar, name);
      slots[argument] = {buffer, StridedView::dense(type.getShape())};
      draft.plan.scalars.push_back({name, buffer, -1});
      if (failed(bindSkips(attrs, draft.plan.scalars.back())))
        return failure();
    } else {
      return step.emitError()
             << "argument " << i << " has dpc.role '" << role
             << "'; parameter, buffer, state, input and scalar are known";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The next value of a parameter or state: normally already in its place.
LogicalResult PlanBuilder::bindTie(Value value, int64_t argument,
                                   Operation *at) {
  if (argument < 0 || argument >= step.getNumArguments())
    return at->emitOpError() << "result is tied to argument " << argument
                             << " of " << step.getNumArguments();
  Slot target = slots[step.getArgument(argument)], from = slots[value];
  Type elementType = cast<RankedTensorType>(value.getType()).getElementType();
  auto buffer = denseBuffer(from, elementType);
  if (!buffer)
    return at->emitOpError("returns a strided view as a parameter");
  if (*buffer == target.buffer)
    return success();
  Item copy;
  copy.phase = updatePhase();
  copy.instruction.name = "copy";
  copy.instruction.op = rt::CopyOp{*buffer, target.buffer, 0, 0,
                                   draft.plan.buffers[target.buffer].bytes};
  items.insert(items.begin() + placeOfCopy(*buffer, target.buffer),
               std::move(copy));
  return success();
}

/// Where a new value can replace the old one, so that its buffer is free soon:
/// behind the last write of `from` and the last access of `to`.
int64_t PlanBuilder::placeOfCopy(int from, int to) {
  auto rootOfBuffer = [&](int id) {
    int parent = draft.plan.buffers[id].viewOf;
    return parent >= 0 ? parent : id;
  };
  int64_t place = 0;
  for (auto [i, item] : llvm::enumerate(items)) {
    rt::Accesses accesses = rt::accessesOf(item.instruction, draft.plan);
    bool isWritten = llvm::any_of(accesses.writes, [&](int id) {
      return rootOfBuffer(id) == rootOfBuffer(from);
    });
    bool isOld = llvm::any_of(accesses.reads, [&](int id) {
      return rootOfBuffer(id) == rootOfBuffer(to);
    });
    // Earlier phases come first whatever their place in the list is.
    if ((isWritten || isOld) && item.phase == updatePhase())
      place = i + 1;
  }
  return place;
}

/// A kernel that copies an output: views may be strided.
void PlanBuilder::emitOutputCopy(Value value, const rt::Port &port, int phase) {
  auto type = cast<RankedTensorType>(value.getType());
  Slot slot = slots.at(value);
  OpBuilder builder(step.getBody().front().getTerminator());
  OperationState state(step.getLoc(), KernelOp::getOperationName());
  state.addOperands(value);
  state.addTypes(type);
  Block *body = new Block;
  state.addRegion()->push_back(body);
  auto kernel = cast<KernelOp>(builder.create(state));
  Value argument = body->addArgument(type, step.getLoc());
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, step.getLoc(), argument);
  KernelSpec spec{
      kernel, {slot.view}, {StridedView::dense(type.getShape())}, {-1}};
  rt::KernelOp call;
  const EmittedKernel *copy = kernelFor(spec);
  assert(copy && copy->stages.size() == 1 && "a copy is one elementwise stage");
  call.symbol = copy->stages.front().symbol;
  call.buffers = {slot.buffer, port.buffer};
  call.writes = {1};
  kernel.erase();
  Item item;
  item.phase = phase;
  item.instruction.name = "copy " + port.name;
  item.instruction.op = std::move(call);
  tails.push_back(std::move(item));
}

void PlanBuilder::bindOutput(unsigned index, Value value) {
  DictionaryAttr attrs = step.getResultAttrDict(index);
  auto type = cast<RankedTensorType>(value.getType());
  RankedTensorType global = globalOf(attrs, type);
  Operation *producer = rootOf(value).getDefiningOp();
  int phase = producer ? phaseOf(producer) : 1;
  Slot slot = slots[value];
  bool whole = slot.view.isDense() &&
               rt::numElements(draft.plan.buffers[slot.buffer].shape) ==
                   type.getNumElements();
  bool taken = !producer || llvm::any_of(draft.plan.outputs, [&](auto &port) {
    return port.buffer == slot.buffer;
  });
  rt::Port port;
  port.name = stringOf(attrs, attr::kName);
  if (port.name.empty())
    port.name = "output" + std::to_string(index);
  port.globalShape = globalShape(global);
  port.layout = layoutOf(global);
  port.buffer = slot.buffer;
  if (!whole || taken) {
    port.buffer = addBuffer(type, rt::BufferKind::Output, port.name);
    emitOutputCopy(value, port, phase);
  } else if (rt::Buffer &buffer = draft.plan.buffers[slot.buffer];
             !isPersistent(buffer.kind) &&
             buffer.kind != rt::BufferKind::Gradient) {
    buffer.kind = rt::BufferKind::Output;
  }
  port.dtype = draft.plan.buffers[port.buffer].dtype;
  int number = draft.plan.outputs.size();
  if (port.layout.mentions(rt::kMicroBatchAxis)) {
    Item item;
    item.phase = phase;
    item.instruction.name = "store " + port.name;
    item.instruction.op = rt::StoreOutputOp{number};
    tails.push_back(std::move(item));
  } else {
    outputsAtEnd.push_back(port.buffer);
  }
  draft.plan.outputs.push_back(std::move(port));
}

LogicalResult PlanBuilder::bindResults() {
  Operation *terminator = step.getBody().front().getTerminator();
  SmallVector<Value> results(terminator->getOperands());
  for (auto [i, value] : llvm::enumerate(results)) {
    if (auto tie = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies)) {
      if (failed(bindTie(value, tie.getInt(), terminator)))
        return failure();
    } else {
      bindOutput(i, value);
    }
  }
  return success();
}

} // namespace dpc::codegen
