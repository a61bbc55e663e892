//===- Ports.cpp - Arguments and results of a step ------------------------===//
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/StageDraft.h"
#include "ir/KernelRole.h"

using namespace mlir;

namespace dpc::codegen {

static DictionaryAttr orEmpty(StageDraft &s, DictionaryAttr attrs) {
  return attrs ? attrs : DictionaryAttr::get(s.step.getContext());
}

static std::string stringOf(DictionaryAttr attrs, StringRef name) {
  auto value = attrs.getAs<StringAttr>(name);
  return value ? value.getValue().str() : "";
}

/// Returns `type` if the argument or result has no global type.
static RankedTensorType globalOf(DictionaryAttr attrs, Type type) {
  auto global = attrs.getAs<TypeAttr>(attr::kGlobal);
  return cast<RankedTensorType>(global ? global.getValue() : type);
}

/// Empty if `step` has no placement.
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

LogicalResult bindMesh(StageDraft &s) {
  auto attr = s.step->getAttrOfType<MeshAttr>(attr::kMesh);
  if (!attr)
    return success();
  rt::Mesh mesh;
  for (auto [name, size] : llvm::zip_equal(attr.getNames(), attr.getSizes())) {
    if (name.getValue() == kMicroBatchAxis)
      mesh.microBatches = size;
    else
      mesh.axes.push_back({name.getValue().str(), size});
  }
  if (auto shares =
          s.step->getAttrOfType<DenseI64ArrayAttr>(attr::kBatchShares))
    mesh.batchShares.assign(shares.asArrayRef().begin(),
                            shares.asArrayRef().end());
  if (s.stage > 0 && mesh != s.plan.mesh)
    return s.step.emitError("has a different mesh than the previous stage");
  s.plan.mesh = std::move(mesh);
  s.plan.processes = processesOf(s.step, s.plan.mesh);
  return success();
}

static LogicalResult bindSpace(StageDraft &s, DictionaryAttr attrs,
                               rt::Buffer &buffer) {
  auto space = attrs.getAs<StringAttr>(attr::kSpace);
  if (!space)
    return success();
  auto known = symbolize<rt::Space>(space.getValue());
  buffer.space = known.value_or(rt::Space::Device);
  if (buffer.space != rt::Space::Device)
    return success();
  return s.step.emitError() << "'" << buffer.name << "' has " << attr::kSpace
                            << " " << space << ", expected \"host\" or "
                            << "\"disk\"";
}

/// Returns the element that an earlier stage added under this name, or the end.
template <typename List>
static auto findEarlier(StageDraft &s, List &list, const std::string &name) {
  return llvm::find_if(list, [&](const auto &other) {
    return other.name == name && s.plan.buffers[other.buffer].stage != s.stage;
  });
}

/// If an earlier stage added the tensor, adds only a buffer, as a copy.
static LogicalResult addTensor(StageDraft &s, rt::Tensor tensor) {
  auto &tensors = s.plan.tensors;
  auto first = findEarlier(s, tensors, tensor.name);
  if (first == tensors.end()) {
    tensors.push_back(std::move(tensor));
    return success();
  }
  if (first->role != tensor.role || first->dtype != tensor.dtype ||
      first->globalShape != tensor.globalShape ||
      first->layout != tensor.layout)
    return s.step.emitError() << "'" << tensor.name
                              << "' has another role, type or sharding on an "
                                 "earlier stage";
  first->copies.push_back(tensor.buffer);
  return success();
}

static LogicalResult bindTensor(StageDraft &s, unsigned index,
                                DictionaryAttr attrs, rt::TensorRole role) {
  BlockArgument argument = s.step.getArgument(index);
  RankedTensorType global = globalOf(attrs, argument.getType());
  bool isState = role == rt::TensorRole::State;
  rt::Tensor tensor;
  tensor.name = stringOf(attrs, attr::kName);
  tensor.of = stringOf(attrs, attr::kOf);
  tensor.slot = stringOf(attrs, attr::kSlot);
  tensor.role = role;
  tensor.buffer = s.slots.addBuffer(
      argument, isState ? rt::BufferKind::Optimizer : rt::BufferKind::Parameter,
      tensor.name);
  if (failed(bindSpace(s, attrs, s.plan.buffers[tensor.buffer])))
    return failure();
  tensor.dtype = s.plan.buffers[tensor.buffer].dtype;
  tensor.globalShape = global.getShape().vec();
  tensor.layout = layoutOf(global);
  if (auto aliases = attrs.getAs<ArrayAttr>(attr::kAliases))
    for (auto alias : aliases.getAsRange<StringAttr>())
      tensor.aliases.push_back(alias.str());
  tensor.isUnsaved = attrs.contains(attr::kUnsaved);
  // A weight without data in the model can only be used with --init.
  tensor.init = isState ? rt::InitKind::Zeros : rt::InitKind::Source;
  if (auto init = attrs.getAs<FloatAttr>(attr::kInit)) {
    tensor.init = rt::InitKind::Value;
    tensor.value = init.getValueAsDouble();
  }
  if (auto source = attrs.getAs<DictionaryAttr>(attr::kSource)) {
    auto offset = source.getAs<IntegerAttr>("offset");
    auto bytes = source.getAs<IntegerAttr>("bytes");
    auto dtype = rt::parseDType(stringOf(source, "dtype"));
    if (!offset || !bytes || !dtype)
      return s.step.emitError()
             << "argument " << index << " '" << tensor.name
             << "': dpc.source needs file, offset, bytes and "
                "a dtype such as \"f32\"";
    tensor.source = rt::TensorSource{stringOf(source, "file"), offset.getInt(),
                                     bytes.getInt(), *dtype};
  }
  return addTensor(s, std::move(tensor));
}

/// Returns the dimension that counts samples, or -1.
static int64_t batchDimOf(DictionaryAttr attrs) {
  auto dim = attrs.getAs<IntegerAttr>(attr::kBatchDim);
  return dim ? dim.getInt() : -1;
}

/// Adds the input unless an earlier stage added it. Returns its index.
static FailureOr<int> inputPort(StageDraft &s, rt::Port port) {
  auto &inputs = s.plan.inputs;
  auto first = findEarlier(s, inputs, port.name);
  int number = static_cast<int>(first - inputs.begin());
  if (first == inputs.end())
    inputs.push_back(std::move(port));
  else if (first->dtype != port.dtype || first->layout != port.layout ||
           first->globalShape != port.globalShape)
    return s.step.emitError() << "input '" << port.name
                              << "' has another type or sharding on an earlier "
                                 "stage";
  return number;
}

static LogicalResult bindInput(StageDraft &s, unsigned index,
                               DictionaryAttr attrs) {
  BlockArgument argument = s.step.getArgument(index);
  RankedTensorType global = globalOf(attrs, argument.getType());
  rt::Port port;
  port.name = stringOf(attrs, attr::kName);
  port.buffer = s.slots.addBuffer(argument, rt::BufferKind::Input, port.name);
  port.dtype = s.plan.buffers[port.buffer].dtype;
  port.globalShape = global.getShape().vec();
  port.batchDim = batchDimOf(attrs);
  port.layout = layoutOf(global);
  int phase = 1; // the first phase of the loop
  bool isRead = false;
  std::function<void(Value)> inspect = [&](Value value) {
    for (Operation *user : value.getUsers()) {
      if (isBufferView(user))
        inspect(user->getResult(0));
      else if (!user->hasTrait<mlir::OpTrait::IsTerminator>()) {
        phase = isRead ? std::min(phase, s.schedule.phaseOf(user))
                       : s.schedule.phaseOf(user);
        isRead = true;
      }
    }
  };
  inspect(argument);
  int buffer = port.buffer;
  std::string name = "load " + port.name;
  FailureOr<int> number = inputPort(s, std::move(port));
  if (failed(number))
    return failure();
  s.list.emit(phase, rt::LoadInputOp{*number, buffer}, name);
  return success();
}

/// Finds the state of this stage that counts the steps that `scalar` skips. In
/// the arguments, states precede scalars.
static LogicalResult bindSkips(StageDraft &s, DictionaryAttr attrs,
                               rt::ScalarInput &scalar) {
  std::string name = stringOf(attrs, attr::kSkips);
  if (name.empty())
    return success();
  for (BlockArgument argument : s.step.getArguments()) {
    DictionaryAttr other =
        orEmpty(s, s.step.getArgAttrDict(argument.getArgNumber()));
    if (stringOf(other, attr::kName) != name || !s.slots.find(argument))
      continue;
    scalar.skips = s.slots.at(argument).buffer;
    return success();
  }
  return s.step.emitError()
         << "scalar '" << scalar.name << "': dpc.skips names '" << name
         << "', which is not a state that precedes it";
}

LogicalResult bindArguments(StageDraft &s) {
  for (unsigned i = 0; i < s.step.getNumArguments(); ++i) {
    DictionaryAttr attrs = orEmpty(s, s.step.getArgAttrDict(i));
    std::string role = stringOf(attrs, attr::kRole);
    if (auto tensor = symbolize<rt::TensorRole>(role)) {
      if (failed(bindTensor(s, i, attrs, *tensor)))
        return failure();
    } else if (role == role::kInput) {
      if (failed(bindInput(s, i, attrs)))
        return failure();
    } else if (role == role::kScalar) {
      std::string name = stringOf(attrs, attr::kName);
      int buffer = s.slots.addBuffer(s.step.getArgument(i),
                                     rt::BufferKind::Scalar, name);
      s.plan.scalars.push_back({name, buffer, -1});
      if (failed(bindSkips(s, attrs, s.plan.scalars.back())))
        return failure();
    } else {
      return s.step.emitError()
             << "argument " << i << " has dpc.role '" << role
             << "', expected parameter, buffer, state, input or scalar";
    }
  }
  return success();
}

/// Returns the earliest position in the update phase at which `from` can be
/// copied to `to`: after the last write of `from` and the last read of `to`.
static int64_t placeOfCopy(StageDraft &s, int from, int to) {
  int64_t place = 0;
  for (auto [i, item] : llvm::enumerate(s.list.items)) {
    Touched touched = touchedBy(item.instruction, s.plan);
    bool isWritten =
        llvm::is_contained(touched.writes, rootOfBuffer(s.plan, from));
    bool isOld = llvm::is_contained(touched.reads, rootOfBuffer(s.plan, to));
    // Items of earlier phases run before the update phase.
    if ((isWritten || isOld) && item.phase == s.schedule.update())
      place = i + 1;
  }
  return place;
}

/// Copies the next value of an argument unless it is already in its buffer.
static LogicalResult bindTie(StageDraft &s, Value value, int64_t argument,
                             Operation *at) {
  if (argument < 0 || argument >= s.step.getNumArguments())
    return at->emitOpError()
           << "ties a result to argument " << argument << "; expected one of "
           << s.step.getNumArguments() << " arguments";
  int target = s.slots.at(s.step.getArgument(argument)).buffer;
  FailureOr<int> buffer = contiguousBuffer(s, at, value);
  if (failed(buffer))
    return failure();
  if (*buffer != target)
    s.list.items.insert(s.list.items.begin() + placeOfCopy(s, *buffer, target),
                        makeItem(s.schedule.update(),
                                 rt::CopyOp{*buffer, target, 0, 0,
                                            s.plan.buffers[target].bytes},
                                 "copy"));
  return success();
}

/// Copies an output with a kernel, because its view may be strided.
static void emitOutputCopy(StageDraft &s, Value value, const rt::Port &port,
                           int phase) {
  auto type = tensorType(value);
  Slot slot = s.slots.at(value);
  OpBuilder builder(s.step.getBody().front().getTerminator());
  KernelOp kernel = createKernel(
      builder, s.step.getLoc(), value, type,
      [](ValueRange arguments) { return llvm::to_vector(arguments); });
  KernelSpec spec{
      kernel, {slot.view}, {StridedView::dense(type.getShape())}, {-1}};
  rt::KernelOp call;
  const EmittedKernel *copy = kernelFor(s.shared, spec);
  assert(copy && copy->stages.size() == 1 && "a copy is one elementwise stage");
  call.symbol = copy->stages.front().symbol;
  call.buffers = {slot.buffer, port.buffer};
  call.writes = {1};
  kernel.erase();
  s.list.tails.push_back(makeItem(phase, std::move(call), "copy " + port.name));
}

static void bindOutput(StageDraft &s, unsigned index, Value value) {
  DictionaryAttr attrs = orEmpty(s, s.step.getResultAttrDict(index));
  auto type = tensorType(value);
  RankedTensorType global = globalOf(attrs, type);
  Operation *producer = bufferRoot(value).getDefiningOp();
  int phase = producer ? s.schedule.phaseOf(producer) : 1;
  Slot slot = s.slots.at(value);
  bool whole = slot.view.isDense() &&
               rt::numElements(s.plan.buffers[slot.buffer].shape) ==
                   type.getNumElements();
  bool taken = !producer || llvm::any_of(s.plan.outputs, [&](auto &port) {
    return port.buffer == slot.buffer;
  });
  rt::Port port;
  port.name = stringOf(attrs, attr::kName);
  if (port.name.empty())
    port.name = "output" + std::to_string(index);
  port.globalShape = global.getShape().vec();
  port.batchDim = batchDimOf(attrs);
  port.faults = stringOf(attrs, attr::kFaults);
  port.layout = layoutOf(global);
  port.buffer = slot.buffer;
  if (!whole || taken) {
    port.buffer = s.slots.addBuffer(type, rt::BufferKind::Output, port.name);
    emitOutputCopy(s, value, port, phase);
  } else if (rt::Buffer &buffer = s.plan.buffers[slot.buffer];
             !isPersistent(buffer.kind) &&
             buffer.kind != rt::BufferKind::Gradient) {
    buffer.kind = rt::BufferKind::Output;
  }
  port.dtype = s.plan.buffers[port.buffer].dtype;
  int number = s.plan.outputs.size();
  if (port.layout.mentions(rt::kMicroBatchAxis)) {
    s.list.tails.push_back(
        makeItem(phase, rt::StoreOutputOp{number}, "store " + port.name));
  } else {
    s.list.outputsAtEnd.push_back(port.buffer);
  }
  s.plan.outputs.push_back(std::move(port));
}

LogicalResult bindResults(StageDraft &s) {
  Operation *terminator = s.step.getBody().front().getTerminator();
  SmallVector<Value> results(terminator->getOperands());
  for (auto [i, value] : llvm::enumerate(results)) {
    if (auto tie = s.step.getResultAttrOfType<IntegerAttr>(i, attr::kTies)) {
      if (failed(bindTie(s, value, tie.getInt(), terminator)))
        return failure();
    } else {
      bindOutput(s, i, value);
    }
  }
  return success();
}

} // namespace dpc::codegen
