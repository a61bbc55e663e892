#include "runtime/plan/PlanValidate.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace dpc::rt {

bool isIdentifier(const std::string &text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])))
    return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_';
  });
}

int64_t checkedElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      return -1;
  return count;
}

std::string placeOf(const Plan &plan, const std::string &phase, size_t index) {
  return concat(phase, '[', index, "] (",
                opName(plan.phases.at(phase)[index].op), ')');
}

namespace {

/// Limits the time of the checks. No machine has as many ranks.
constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxMicroBatches = 1 << 20;

std::string quoted(const std::string &text) { return '"' + text + '"'; }

Status within(const std::string &place, const Status &status) {
  return status.ok()
             ? status
             : Status(status.code(), oneLine(place + ": " + status.message()));
}

Status checkId(int id, size_t position) {
  return id == static_cast<int>(position)
             ? Status::success()
             : wrongField("id", id, "its position ", position);
}

/// Checks that the shares add up to the number of cells of the batch.
Status checkBatchShares(const Mesh &mesh) {
  if (mesh.batchShares.empty())
    return Status::success();
  int64_t ranks = mesh.dataRanks(), cells = ranks * mesh.microBatches, sum = 0;
  if (static_cast<int64_t>(mesh.batchShares.size()) != ranks)
    return Status::invalid("batch_shares has ", mesh.batchShares.size(),
                           " numbers, the mesh has ", ranks,
                           " data-parallel ranks");
  for (int64_t share : mesh.batchShares) {
    if (share < 1 || share > cells)
      return Status::invalid("batch_shares has ", share, ", expected 1 to ",
                             cells);
    sum += share;
  }
  if (sum != cells)
    return Status::invalid("batch_shares add up to ", sum, ", expected ", ranks,
                           " data-parallel ranks x ", mesh.microBatches,
                           " micro-batches");
  return Status::success();
}

Status checkMesh(const Mesh &mesh) {
  int64_t ranks = 1;
  std::set<std::string> names;
  for (const MeshAxis &axis : mesh.axes) {
    if (!isIdentifier(axis.name) || axis.name == kMicroBatchAxis)
      return Status::invalid("mesh: ", quoted(axis.name),
                             " cannot name a rank axis");
    if (!names.insert(axis.name).second)
      return Status::invalid("mesh: axis ", quoted(axis.name),
                             " is listed twice");
    if (axis.size < 1 || axis.size > kMaxRanks || ranks * axis.size > kMaxRanks)
      return Status::invalid("mesh: axis ", quoted(axis.name), " has size ",
                             axis.size);
    ranks *= axis.size;
  }
  if (mesh.microBatches < 1 || mesh.microBatches > kMaxMicroBatches)
    return Status::invalid("micro_batches is ", mesh.microBatches,
                           ", expected at least 1");
  return checkBatchShares(mesh);
}

Status checkProcesses(const Plan &plan) {
  if (plan.processes.empty())
    return Status::success();
  std::set<int> seen(plan.processes.begin(), plan.processes.end());
  int64_t ranks = plan.ranks();
  if (static_cast<int64_t>(plan.processes.size()) != ranks ||
      static_cast<int64_t>(seen.size()) != ranks || *seen.begin() != 0 ||
      *seen.rbegin() != ranks - 1)
    return Status::invalid("processes: expected the numbers 0 to ", ranks - 1,
                           ", once each");
  return Status::success();
}

Status checkKernelFile(const Plan &plan) {
  const std::string &name = plan.kernelFile;
  if (name.find('/') != std::string::npos || name == "." || name == "..")
    return Status::invalid("kernel_file is ", quoted(name),
                           ", expected a plain file name");
  if (name.empty())
    return Status::success();
  if (!isHash(plan.kernelHash))
    return Status::invalid("kernel_hash is ", quoted(plan.kernelHash),
                           ", expected 16 hexadecimal digits");
  return Status::success();
}

Status checkLr(const LrSchedule &lr) {
  if (!std::isfinite(lr.lr) || lr.lr < 0)
    return Status::invalid("lr_schedule.lr is ", lr.lr,
                           ", expected a number >= 0");
  if (!(lr.min >= 0 && lr.min <= lr.lr))
    return Status::invalid("lr_schedule.min is ", lr.min,
                           ", expected a number from 0 to lr");
  if (lr.warmup < 0)
    return Status::invalid("lr_schedule.warmup is ", lr.warmup,
                           ", expected >= 0");
  if (lr.kind != LrKind::Constant && lr.total <= lr.warmup)
    return Status::invalid("lr_schedule.total is ", lr.total,
                           ", expected more than warmup (", lr.warmup, ")");
  return Status::success();
}

Status checkGroup(const Group &group, size_t index, const Mesh &mesh) {
  std::string place = "groups[" + std::to_string(index) + "]";
  DPC_TRY(checkId(group.id, index).in(place));
  std::set<std::string> seen;
  for (const std::string &axis : group.axes) {
    if (axis == kMicroBatchAxis || !mesh.has(axis))
      return Status::invalid(place, ": axes names ", quoted(axis),
                             ", which is not a rank axis of the mesh");
    if (!seen.insert(axis).second)
      return Status::invalid(place, ": axes names ", quoted(axis), " twice");
  }
  if (group.members != groupMembers(mesh, group.axes))
    return Status::invalid(place, ": members are not the partition of the ",
                           mesh.ranks(), " ranks along its axes");
  return Status::success();
}

Status checkFrame(const Plan &plan, const Frame &frame) {
  if (frame.stage < 0 || frame.stage >= plan.mesh.stages())
    return Status::invalid("stage is ", frame.stage,
                           ", but the number of stages is ",
                           plan.mesh.stages());
  if (frame.chunk < 0)
    return Status::invalid("chunk is ", frame.chunk);
  if (frame.bytes < 0 || frame.bytes % 64 != 0 || frame.offset < 0 ||
      frame.offset % 64 != 0)
    return Status::invalid("bytes is ", frame.bytes, " and offset ",
                           frame.offset, ", expected multiples of 64");
  int64_t bytes = 0, arena = plan.arenaBytes[frame.stage];
  if (frame.count < 1 ||
      __builtin_mul_overflow(frame.bytes, frame.count, &bytes) ||
      frame.offset > arena || bytes > arena - frame.offset)
    return Status::invalid("count is ", frame.count, ": slots of ", frame.bytes,
                           " bytes from offset ", frame.offset,
                           " on do not fit the stage's arena (arena_bytes ",
                           arena, ")");
  return Status::success();
}

Status checkFrames(const Plan &plan) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (size_t i = 0; i < plan.frames.size(); ++i) {
    const Frame &frame = plan.frames[i];
    std::string place = "frames[" + std::to_string(i) + "]";
    DPC_TRY(within(place, checkId(frame.id, i)));
    DPC_TRY(within(place, checkFrame(plan, frame)));
    if (!seen.insert({frame.stage, frame.chunk}).second)
      return Status::invalid(place, ": stage ", frame.stage,
                             " has a frame of chunk ", frame.chunk, " already");
  }
  return Status::success();
}

Status checkRoom(const Plan &plan, const Buffer &buffer) {
  if (buffer.stage < 0 || buffer.stage >= plan.mesh.stages())
    return Status::invalid("stage is ", buffer.stage,
                           ", but the number of stages is ",
                           plan.mesh.stages());
  bool isElsewhere = buffer.space != Space::Device;
  if (isElsewhere && (!isPersistent(buffer.kind) || buffer.frame != -1 ||
                      buffer.viewOf != -1 || buffer.kind == BufferKind::Scalar))
    return Status::invalid("space is ", nameOf(buffer.space),
                           ", expected device; only parameters and optimizer "
                           "states that are not views may be elsewhere");
  int64_t room = plan.bytesOf(buffer.space, buffer.stage);
  if (buffer.frame != -1) {
    if (buffer.frame < 0 ||
        buffer.frame >= static_cast<int>(plan.frames.size()) ||
        plan.frames[buffer.frame].stage != buffer.stage)
      return Status::invalid("frame is ", buffer.frame,
                             ", expected a frame of stage ", buffer.stage,
                             " or -1");
    if (isPersistent(buffer.kind))
      return Status::invalid("frame is ", buffer.frame,
                             ", but the buffer persists");
    room = plan.frames[buffer.frame].bytes;
  }
  if (buffer.offset <= room && buffer.bytes <= room - buffer.offset)
    return Status::success();
  return Status::invalid(
      "offset ", buffer.offset, " plus ", buffer.bytes, " bytes passes the ",
      (isElsewhere        ? std::string(nameOf(buffer.space)) + " space's end ("
       : buffer.frame < 0 ? "arena's end (arena_bytes "
                          : "frame's end (bytes "),
      room, ")");
}

Status checkBuffer(const Plan &plan, const Buffer &buffer) {
  int64_t elements = checkedElements(buffer.shape), bytes = 0;
  if (elements < 0 ||
      __builtin_mul_overflow(elements, sizeOf(buffer.dtype), &bytes))
    return Status::invalid("shape ", describe(buffer.dtype, buffer.shape),
                           " has a negative extent or too many elements");
  if (buffer.bytes != bytes)
    return Status::invalid("bytes is ", buffer.bytes, ", but ",
                           describe(buffer.dtype, buffer.shape), " has ",
                           bytes);
  int64_t alignment = buffer.viewOf < 0 ? 64 : sizeOf(buffer.dtype);
  if (buffer.offset < 0 || buffer.offset % alignment != 0)
    return Status::invalid("offset is ", buffer.offset,
                           ", expected a multiple of ", alignment);
  return checkRoom(plan, buffer);
}

Status checkView(const Plan &plan, const Buffer &buffer) {
  if (buffer.viewOf == -1)
    return Status::success();
  if (buffer.viewOf < 0 ||
      buffer.viewOf >= static_cast<int>(plan.buffers.size()))
    return Status::invalid("view_of is ", buffer.viewOf,
                           ", expected a buffer or -1");
  const Buffer &parent = plan.buffers[buffer.viewOf];
  if (parent.stage != buffer.stage || parent.frame != buffer.frame)
    return Status::invalid("view_of is ", buffer.viewOf,
                           ", which belongs to another stage or frame");
  if (parent.viewOf != -1)
    return Status::invalid("view_of is ", buffer.viewOf,
                           ", which is a view itself");
  if (buffer.offset < parent.offset ||
      buffer.offset + buffer.bytes > parent.offset + parent.bytes)
    return Status::invalid("offset ", buffer.offset, " is outside buffer ",
                           buffer.viewOf, ", which it views");
  return Status::success();
}

/// Checks that the buffer has the type and size of a shard.
template <typename T>
Status checkHome(const Plan &plan, const T &value, int id) {
  DPC_TRY(checkBufferId(plan, "buffer", id));
  const Buffer &buffer = plan.buffers[id];
  if (buffer.dtype != value.dtype)
    return Status::invalid("dtype is ", nameOf(value.dtype),
                           ", but its buffer holds ", nameOf(buffer.dtype));
  if (checkedElements(value.globalShape) < 0)
    return Status::invalid("global_shape ",
                           describe(value.dtype, value.globalShape),
                           " has a negative extent or too many elements");
  DPC_TRY(checkLayout(value.layout, value.globalShape, plan.mesh));
  if (value.layout.mentions(kPipelineAxis))
    return Status::invalid("layout mentions pp, the axis of stages");
  std::vector<int64_t> local = localShape(value.layout, plan.mesh);
  if (checkedElements(local) != checkedElements(buffer.shape))
    return Status::invalid("layout gives shards ", describe(value.dtype, local),
                           ", but its buffer is ",
                           describe(buffer.dtype, buffer.shape));
  return Status::success();
}

Status checkSource(const Tensor &tensor) {
  // A tensor with init "source" and without a source needs --init at run time.
  if (!tensor.source)
    return Status::success();
  const TensorSource &source = *tensor.source;
  if (source.file.empty())
    return Status::invalid("source.file is empty");
  if (source.offset < 0)
    return Status::invalid("source.offset is ", source.offset);
  int64_t bytes = numElements(tensor.globalShape) * sizeOf(source.dtype);
  if (source.bytes != bytes)
    return Status::invalid("source.bytes is ", source.bytes, ", ",
                           describe(source.dtype, tensor.globalShape), " has ",
                           bytes);
  return Status::success();
}

Status checkTensorHome(const Plan &plan, const Tensor &tensor, int id) {
  DPC_TRY(checkHome(plan, tensor, id));
  BufferKind kind = plan.buffers[id].kind;
  BufferKind expected = tensor.role == TensorRole::State
                            ? BufferKind::Optimizer
                            : BufferKind::Parameter;
  if (kind != expected)
    return Status::invalid("a ", nameOf(tensor.role),
                           " needs a buffer of kind ", nameOf(expected),
                           ", buffer ", id, " is of kind ", nameOf(kind));
  return Status::success();
}

Status checkTensor(const Plan &plan, const Tensor &tensor) {
  DPC_TRY(checkTensorHome(plan, tensor, tensor.buffer));
  if (tensor.layout.mentions(kMicroBatchAxis))
    return Status::invalid("layout mentions mb, but the value persists");
  std::set<int64_t> stages{plan.buffers[tensor.buffer].stage};
  for (int copy : tensor.copies) {
    DPC_TRY(within("copies", checkTensorHome(plan, tensor, copy)));
    if (!stages.insert(plan.buffers[copy].stage).second)
      return Status::invalid("copies: stage ", plan.buffers[copy].stage,
                             " has the value already");
  }
  bool isState = tensor.role == TensorRole::State;
  if (isState == tensor.slot.empty() || (!isState && !tensor.of.empty()))
    return Status::invalid(
        isState ? "slot is empty in a state"
                : "of or slot is set, but the tensor is not a state");
  bool found = tensor.of.empty() ||
               std::any_of(plan.tensors.begin(), plan.tensors.end(),
                           [&](const Tensor &other) {
                             return other.role == TensorRole::Parameter &&
                                    other.name == tensor.of;
                           });
  if (!found)
    return Status::invalid("of is ", quoted(tensor.of),
                           ", which is not a parameter of the plan");
  return checkSource(tensor);
}

/// Checks that `source_files` has an entry for each file of initial values, and
/// no other.
Status checkSourceFiles(const Plan &plan) {
  std::map<std::string, bool> isListed;
  for (const Tensor &tensor : plan.tensors)
    if (tensor.source)
      isListed[tensor.source->file] = false;
  for (size_t i = 0; i < plan.sourceFiles.size(); ++i) {
    const SourceFile &entry = plan.sourceFiles[i];
    std::string place = concat("source_files[", i, "] ", quoted(entry.file));
    auto found = isListed.find(entry.file);
    if (found == isListed.end())
      return Status::invalid(place, ": no tensor has its values in this file");
    if (std::exchange(found->second, true))
      return Status::invalid(place, ": listed twice");
    if (entry.bytes < 0)
      return Status::invalid(place, ": bytes is ", entry.bytes);
    if (!isHash(entry.hash))
      return Status::invalid(place, ": hash is ", quoted(entry.hash),
                             ", expected 16 hexadecimal digits");
  }
  for (const auto &[file, listed] : isListed)
    if (!listed)
      return Status::invalid("source_files has no entry for ", quoted(file),
                             ", in which a tensor has its values");
  return Status::success();
}

Status checkPorts(const Plan &plan, const std::vector<Port> &ports,
                  const std::string &list) {
  std::set<std::string> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port &port = ports[i];
    std::string place = concat(list, "[", i, "] ", quoted(port.name));
    if (port.name.empty() || !names.insert(port.name).second)
      return Status::invalid(place, ": name is empty or used twice");
    if (port.batchDim < -1 ||
        port.batchDim >= static_cast<int64_t>(port.globalShape.size()))
      return Status::invalid(place, ": batch_dim is ", port.batchDim,
                             ", but there are ", port.globalShape.size(),
                             " dimensions");
    if (port.limit < port.first)
      return Status::invalid(place, ": limit is ", port.limit,
                             ", below first, ", port.first);
    if (port.ignored && port.limit == port.first)
      return Status::invalid(place, ": ignored is ", *port.ignored,
                             ", but there is no limit");
    DPC_TRY(within(place, checkHome(plan, port, port.buffer)));
    if (plan.buffers[port.buffer].space != Space::Device)
      return Status::invalid(place, ": buffer ", port.buffer,
                             " is not in the device's memory");
  }
  return Status::success();
}

Status checkSkips(const Plan &plan, const ScalarInput &scalar) {
  if (scalar.skips == -1)
    return Status::success();
  DPC_TRY(checkBufferId(plan, "skips", scalar.skips));
  const Buffer &buffer = plan.buffers[scalar.skips];
  if (buffer.kind != BufferKind::Optimizer || buffer.dtype != DType::F32 ||
      buffer.bytes != 4 || buffer.stage != plan.buffers[scalar.buffer].stage)
    return Status::invalid("skips is ", scalar.skips,
                           ", which is not one f32 of kind optimizer on the "
                           "scalar's stage");
  return Status::success();
}

Status checkScalars(const Plan &plan) {
  std::set<std::pair<std::string, int64_t>> names;
  std::set<int> buffers;
  for (size_t i = 0; i < plan.scalars.size(); ++i) {
    const ScalarInput &scalar = plan.scalars[i];
    std::string place = concat("scalars[", i, "] ", quoted(scalar.name));
    if (scalar.name != "lr" && scalar.name != "step")
      return Status::invalid(place, ": expected lr or step");
    DPC_TRY(within(place, checkBufferId(plan, "buffer", scalar.buffer)));
    const Buffer &buffer = plan.buffers[scalar.buffer];
    if (buffer.kind != BufferKind::Scalar || buffer.dtype != DType::F32 ||
        buffer.bytes != 4)
      return Status::invalid(place, ": buffer ", scalar.buffer,
                             " is not one f32 of kind scalar");
    DPC_TRY(within(place, checkSkips(plan, scalar)));
    if (!names.insert({scalar.name, buffer.stage}).second)
      return Status::invalid(place, ": listed twice for stage ", buffer.stage);
    if (!buffers.insert(scalar.buffer).second)
      return Status::invalid(place, ": buffer ", scalar.buffer,
                             " is used twice");
  }
  return Status::success();
}

} // namespace

Status checkHeader(const Plan &plan) {
  if (plan.version != kPlanVersion)
    return Status::invalid("plan version ", plan.version,
                           " is not supported, this build reads ",
                           kPlanVersion);
  DPC_TRY(checkMesh(plan.mesh));
  DPC_TRY(checkKernelFile(plan));
  DPC_TRY(checkLaunches(plan));
  DPC_TRY(checkLr(plan.lrSchedule));
  for (size_t i = 0; i < plan.groups.size(); ++i)
    DPC_TRY(checkGroup(plan.groups[i], i, plan.mesh));
  return checkProcesses(plan);
}

Status checkBuffers(const Plan &plan) {
  for (const auto &[name, sizes] : {std::pair("arena_bytes", &plan.arenaBytes),
                                    std::pair("host_bytes", &plan.hostBytes),
                                    std::pair("disk_bytes", &plan.diskBytes)}) {
    if (static_cast<int64_t>(sizes->size()) != plan.mesh.stages())
      return Status::invalid(name, " has ", sizes->size(),
                             " numbers, the mesh has ", plan.mesh.stages(),
                             " stages");
    for (int64_t bytes : *sizes)
      if (bytes < 0)
        return Status::invalid(name, " is ", bytes);
  }
  DPC_TRY(checkFrames(plan));
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer &buffer = plan.buffers[i];
    std::string place = concat("buffers[", i, "] ", quoted(buffer.name));
    DPC_TRY(within(place, checkId(buffer.id, i)));
    DPC_TRY(within(place, checkBuffer(plan, buffer)));
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    DPC_TRY(within("buffers[" + std::to_string(i) + "] " +
                       quoted(plan.buffers[i].name),
                   checkView(plan, plan.buffers[i])));
  return Status::success();
}

Status checkTensors(const Plan &plan) {
  std::set<std::string> names;
  std::set<int> buffers;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor &tensor = plan.tensors[i];
    std::string place = concat("tensors[", i, "] ", quoted(tensor.name));
    if (tensor.name.empty() || !names.insert(tensor.name).second)
      return Status::invalid(place, ": name is empty or used twice");
    DPC_TRY(within(place, checkTensor(plan, tensor)));
    for (int id : tensor.allBuffers())
      if (!buffers.insert(id).second)
        return Status::invalid(place, ": buffer ", id,
                               " holds another tensor already");
  }
  DPC_TRY(checkSourceFiles(plan));
  DPC_TRY(checkPorts(plan, plan.inputs, "inputs"));
  DPC_TRY(checkPorts(plan, plan.outputs, "outputs"));
  return checkScalars(plan);
}

Status validatePlan(const Plan &plan, const std::string &file) {
  for (auto *check : {checkHeader, checkBuffers, checkTensors,
                      checkInstructions, checkLiveness, checkMeetings})
    DPC_TRY(within(file, check(plan)));
  return Status::success();
}

} // namespace dpc::rt
