//===- Plan.h - the contents of a plan folder -------------------*- C++ -*-===//
//
// A plan is the program of one step of training or inference for all ranks:
// buffers in an arena, instructions that access them, and a schedule.
// PlanJson.h writes and reads plan.json. PlanValidate.h checks a plan before it
// runs.
//
// Semantics:
// - Ranks are numbered row-major over `mesh.axes`, first axis outermost. The
//   pipeline stage of a rank is its coordinate along "pp" (0 without this
//   axis). All ranks of a stage have the same buffers and phases; their data
//   and the values of ScalarExpr differ. A buffer belongs to one stage.
// - A step runs the entries of `schedule[rank]` in order. Each entry runs one
//   phase for one micro-batch. The runtime fills the scalar buffers before the
//   step and reads the outputs after the step.
// - A frame holds the values that a micro-batch keeps between phases. A frame
//   has a slot for each micro-batch that is active at the same time. A schedule
//   entry names the slot of its micro-batch.
// - Each rank has three queues: compute, comm and copy. A queue runs its
//   instructions in order. Only events order instructions of different queues:
//   an instruction that waits for event e starts after the instruction that
//   signals e has ended. If the signalling instruction runs several times, the
//   last run before the waiting instruction in the schedule counts. Events also
//   order instructions of different phases. All queues end before the next
//   step.
// - Collectives ("all_reduce" ...) are in the comm queue. All ranks of a group
//   issue the same collectives in the same order.
// - Each rank has three memory spaces: device, host and disk. Persistent values
//   may be in any of them. Only a "transfer", in the copy queue, accesses
//   buffers outside the device space.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLAN_H
#define DPC_RUNTIME_PLAN_PLAN_H

#include "runtime/base/DType.h"
#include "runtime/base/EnumNames.h"
#include "runtime/base/Group.h"
#include "runtime/base/Layout.h"
#include "runtime/plan/PlanAttention.h"
#include "runtime/plan/PlanConv.h"
#include "runtime/plan/PlanEpilogue.h"
#include "runtime/plan/PlanFp8.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dpc::rt {

/// The plan format that this build writes and reads.
inline constexpr int kPlanVersion = 10;

/// The purpose of a buffer. Parameter, Optimizer and Scalar buffers persist
/// from step to step and do not share bytes with other buffers.
enum class BufferKind {
  Parameter,
  Gradient,
  Optimizer,
  Activation,
  Workspace,
  Communication,
  Input,
  Scalar,
  Output
};
bool isPersistent(BufferKind kind);

/// The memory space of a buffer: device memory (for computation and
/// communication), host memory, or a file on disk.
enum class Space { Device, Host, Disk };

/// Memory in which a chunk of the model keeps values of each micro-batch
/// between phases. Slot i begins at offset + i * bytes.
struct Frame {
  int id = -1;        ///< equals its index in Plan::frames
  int64_t stage = 0;  ///< coordinate along "pp"
  int64_t chunk = 0;  ///< index among the chunks of the stage
  int64_t bytes = 0;  ///< bytes of a slot, a multiple of 64
  int64_t count = 1;  ///< slots
  int64_t offset = 0; ///< from the arena's start, 64-byte aligned
};

/// A dense row-major array in an arena or in the slots of a frame. Frames and
/// views are in the device arena.
struct Buffer {
  int id = -1; ///< equals its index in Plan::buffers
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local shape, padding included
  int64_t stage = 0;          ///< stage of the ranks that hold it
  Space space = Space::Device;
  int frame = -1;     ///< index in Plan::frames; -1: not in a frame
  int64_t offset = 0; ///< bytes from the start of the arena or slot, 64-aligned
  int64_t bytes = 0;  ///< product of shape times size of dtype
  BufferKind kind = BufferKind::Activation;
  /// The viewed buffer, if this buffer is a view (a reshape, a slice of a
  /// bucket); otherwise -1. A view is a part of the viewed buffer and has the
  /// same live range. The offset of a view is aligned only for its dtype. A
  /// view of a view does not exist.
  int viewOf = -1;
};

/// Partitions the ranks of `mesh` into cells along `axes`, which may be in any
/// order. Each cell is ascending.
std::vector<std::vector<int>>
groupMembers(const Mesh &mesh, const std::vector<std::string> &axes);

/// The location of a tensor's initial values: `bytes` bytes at `offset` of
/// `file`, row-major. A relative path is relative to the plan folder.
struct TensorSource {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  DType dtype = DType::F32;
};

enum class TensorRole { Parameter, Buffer, State };

enum class InitKind { Zeros, Source, Random, Value };

/// A persistent value: parameter, model buffer or optimizer state.
struct Tensor {
  std::string name; ///< unique; the source model's name for a parameter
  TensorRole role = TensorRole::Parameter;
  /// For an optimizer state: the parameter that it belongs to. "" for a state
  /// of the whole step and for other roles.
  std::string of;
  /// For an optimizer state: its kind ("exp_avg", "exp_avg_sq", "momentum",
  /// ..). "" for other roles.
  std::string slot;
  int buffer = -1;
  /// Buffers of other stages that hold the same values (tied parameters). The
  /// copies are filled and updated like `buffer`; checkpoints save only
  /// `buffer`.
  std::vector<int> copies;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout; ///< must not mention "mb"
  std::optional<TensorSource> source;
  InitKind init = InitKind::Zeros;
  int64_t seed = 0; ///< for Random
  double value = 0; ///< for Value: the value of all elements

  /// All of `copies`, followed by `buffer`.
  std::vector<int> allBuffers() const;
};

/// An input or output of the step, over the global batch. "load_input" copies
/// an input to `buffer`, or to a buffer of the same type and size in another
/// stage. "store_output" copies an output from `buffer`. If no instruction
/// stores an output, the runtime reads it after the step, and its layout must
/// not mention "mb".
struct Port {
  std::string name;
  int buffer = -1;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout;
  /// For integer inputs: an upper bound of the values, such as the vocabulary
  /// size; 0 if unknown. Random data stays below this bound, and tokens are
  /// checked against it.
  int64_t limit = 0;
};

enum class LrKind { Constant, Cosine, Linear };

/// The learning rate of step t (1-based). Let s = t - 1. While s < warmup, the
/// rate is lr * s / warmup. After that, it is lr (constant) or min + (lr - min)
/// * c. With p = min(1, (s - warmup) / (total - warmup)), c is (1 + cos(pi p))
/// / 2 (cosine) or 1 - p (linear). This matches Megatron-LM's
/// --lr-warmup-iters, --lr-decay-iters, --lr-decay-style and --min-lr.
struct LrSchedule {
  LrKind kind = LrKind::Constant;
  double lr = 0;
  int64_t warmup = 0;
  int64_t total = 0; ///< steps; must exceed warmup unless constant
  double min = 0;    ///< the final value of cosine and linear
};
double learningRate(const LrSchedule &schedule, int64_t step);

/// A value that the runtime writes to a buffer of one fp32 element before each
/// step: "lr" or "step" (1-based). Each stage that reads the value has a
/// separate buffer. `skips` (or -1) is a buffer of the same stage with an fp32
/// state that counts the skipped updates. The runtime subtracts this count from
/// the step number, so the learning rate schedule does not advance in skipped
/// steps.
struct ScalarInput {
  std::string name;
  int buffer = -1;
  int skips = -1;
};

enum class ScalarKind {
  Const,  ///< value
  Offset, ///< shardOf(size, axes).offset
  Valid,  ///< shardOf(size, axes).valid
  Coord   ///< linear coordinate along axes, first axis outermost
};

/// An integer argument of a kernel, evaluated for each rank and micro-batch.
struct ScalarExpr {
  ScalarKind kind = ScalarKind::Const;
  int64_t value = 0;             ///< for Const
  int64_t size = 0;              ///< for Offset and Valid: size of the factor
  std::vector<std::string> axes; ///< for Offset, Valid and Coord; may include
                                 ///< "mb"
};
int64_t evaluate(const ScalarExpr &expr, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Calls SYMBOL(void *const *buffers, const int64_t *scalars) of kernels.so. On
/// GPUs, launches SYMBOL of kernels.ptx with the geometry in kernelLaunches;
/// its parameters are the addresses of the buffers, followed by the scalars (64
/// bits each). A buffer that the kernel reads and writes is listed twice.
struct KernelOp {
  std::string symbol;
  std::vector<int> buffers;
  std::vector<int> writes; ///< positions in `buffers` that are written
  std::vector<ScalarExpr> scalars;
};

/// The one-dimensional geometry with which a kernel of kernels.ptx is launched.
struct KernelLaunch {
  int64_t blocks = 1;
  int64_t threads = 32;    ///< per block
  int64_t sharedBytes = 0; ///< dynamic shared memory per block
};

/// C[i][j] = alpha * op(A[i][j]) * op(B[i][j]) + beta * C[i][j] for i < batch,
/// j < batch2. Matrices are row-major. op(A) is m x k and stored k x m with
/// transA; op(B) is k x n and stored n x k with transB. Offsets, leading
/// dimensions and strides are in elements: matrix (i, j) of A starts at aOffset
/// + i * strideA + j * stride2A. A stride of 0 repeats the matrix.
struct MatmulOp {
  int a = -1, b = -1, c = -1;
  int64_t aOffset = 0, bOffset = 0, cOffset = 0;
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, strideA = 0, strideB = 0, strideC = 0;
  int64_t batch2 = 1, stride2A = 0, stride2B = 0, stride2C = 0;
  double alpha = 1, beta = 0;
  /// The type of the arithmetic. F32: A, B and C are f32. F64: all are f64.
  /// BF16 or F16: A, B and C each have this type or f32 (A and B are rounded to
  /// this type), and products are summed in f32.
  DType compute = DType::F32;
  /// An epilogue requires batch and batch2 1, alpha 1, and beta 0 (except
  /// SumsOfA and SumsOfB). `bias` and `aux` are buffers of C's type, or -1 if
  /// the epilogue has none. `bias` and `aux` begin at biasOffset and auxOffset;
  /// rows of aux are auxLd apart (in elements).
  Epilogue epilogue = Epilogue::None;
  int bias = -1, aux = -1;
  int64_t biasOffset = 0, auxOffset = 0, auxLd = 0;
  /// Requires batch and batch2 1, and A and B of bf16.
  std::optional<Fp8Factors> fp8;
};

/// Reduces each buffer over the group, in place.
struct AllReduceOp {
  int group = -1;
  std::vector<int> buffers;
  ReduceKind kind = ReduceKind::Sum;
};
/// For each pair in `ins` and `outs`: out[i] = `in` of member i. `out` is as
/// large as `in` of all members together.
struct AllGatherOp {
  int group = -1;
  std::vector<int> ins, outs;
};
/// For each pair in `ins` and `outs`: out = the reduction of in[my index] over
/// the members.
struct ReduceScatterOp {
  int group = -1;
  std::vector<int> ins, outs;
  ReduceKind kind = ReduceKind::Sum;
};
/// out[i] = in[my index] of member i. `in` and `out` have one chunk for each
/// member.
struct AllToAllOp {
  int group = -1;
  int in = -1, out = -1;
};
/// Copies the buffer of member `root` to all members.
struct BroadcastOp {
  int group = -1;
  int buffer = -1;
  int root = 0; ///< index in the group
};
/// A message to or from the peer: the member `shift` places after this rank in
/// the group. With `wrap` the group is a ring; otherwise, this rank does
/// nothing if the peer is outside the group. A recv receives the message that
/// has the same group, tag and micro-batch. Sends do not wait, so messages with
/// different tags or micro-batches may be sent and received in any order.
struct SendOp {
  int group = -1;
  int buffer = -1;
  int shift = 1;
  bool wrap = false;
  int64_t tag = 0;
};
struct RecvOp {
  int group = -1;
  int buffer = -1;
  int shift = -1;
  bool wrap = false;
  int64_t tag = 0;
};
/// The key by which communicators match messages: the tag and the micro-batch.
int64_t messageTag(int64_t tag, const Mesh &mesh, int64_t microBatch);
/// Copies `bytes` bytes from `in` at inOffset to `out` at outOffset (bytes).
struct CopyOp {
  int in = -1, out = -1;
  int64_t inOffset = 0, outOffset = 0;
  int64_t bytes = 0;
};
/// Copies all of `in` to `out`. Exactly one of the two buffers is in the device
/// space. Runs in the copy queue.
struct TransferOp {
  int in = -1, out = -1;
};
/// Sets every element of the buffer to `value`.
struct FillOp {
  int buffer = -1;
  double value = 0;
};
/// Copies the shard of an input for this rank and micro-batch into `buffer`,
/// and fills the padding with zeros.
struct LoadInputOp {
  int input = -1; ///< index in Plan::inputs
  int buffer = -1;
};
/// Copies the shard of an output for this rank and micro-batch from its buffer.
struct StoreOutputOp {
  int output = -1; ///< index in Plan::outputs
};

using OpVariant =
    std::variant<KernelOp, MatmulOp, ConvOp, AttentionOp, AttentionGradOp,
                 AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                 BroadcastOp, SendOp, RecvOp, CopyOp, TransferOp, FillOp,
                 LoadInputOp, StoreOutputOp>;

enum class Queue { Compute, Comm, Copy };
inline constexpr int kNumQueues = 3;

/// One entry of a phase.
struct Instruction {
  Queue queue = Queue::Compute;
  std::vector<int> waits; ///< events; see the top of this file
  int signals = -1;       ///< an event that no other instruction signals, or -1
  std::string name;       ///< name of the source op, for traces
  double flops = 0;       ///< per run, for traces
  OpVariant op;
};
/// "kernel", "matmul", ...
std::string_view opName(const OpVariant &op);
/// Whether the op is a collective or a message, which belong to the comm queue.
bool isCollective(const OpVariant &op);

/// The group of a collective or message; -1 for other ops.
int groupOf(const OpVariant &op);
/// The cell of `group` that contains `rank`, ascending.
const std::vector<int> &cellOf(const Group &group, int rank);
/// The peer of a message; -1 if it is outside the group.
int peerOf(const Group &group, const SendOp &op, int rank);
int peerOf(const Group &group, const RecvOp &op, int rank);

/// The buffers that an instruction reads and writes (ids, with repetitions).
struct Accesses {
  std::vector<int> reads;
  std::vector<int> writes;
};
struct Plan;
Accesses accessesOf(const Instruction &instruction, const Plan &plan);

enum class PhaseKind { Setup, Forward, Backward, Weight, Update };

/// The parts of the name of a phase: "forward", "backward.1" (chunk 1), or,
/// with a "pp" axis, "s2.forward" (stage 2). If there is a "weight" phase, it
/// computes the gradients of weights; the "backward" phase then computes only
/// gradients of activations.
struct PhaseName {
  int64_t stage = 0;
  PhaseKind kind = PhaseKind::Forward;
  int64_t chunk = 0; ///< 0 in setup and update

  std::string text(const Mesh &mesh) const;
  /// Nullopt if `text` is not the name of a phase on this mesh.
  static std::optional<PhaseName> parse(const std::string &text,
                                        const Mesh &mesh);
};

/// The slot of a frame that belongs to the micro-batch.
struct FrameSlot {
  int frame = -1;
  int64_t slot = 0;
  bool operator==(const FrameSlot &) const = default;
};

/// An entry of a schedule: run this phase for this micro-batch.
struct ScheduleEntry {
  std::string phase; ///< a key of Plan::phases
  int64_t microBatch = 0;
  /// One slot for each frame that an instruction of the phase accesses.
  std::vector<FrameSlot> slots;
  bool operator==(const ScheduleEntry &) const = default;
};

/// A whole plan; see the top of this file.
struct Plan {
  int version = kPlanVersion;
  std::string model;
  Mesh mesh; ///< rank axes, and the micro-batches of data-parallel ranks
  /// The process of each rank, in a job with one process per rank. Processes
  /// are numbered machine by machine, so this list assigns ranks to machines.
  /// Empty: rank i is process i.
  std::vector<int> processes;
  bool trains = false;
  std::string targetCpu; ///< LLVM's CPU name
  /// CPU features that the kernels require, in LLVM's spelling ("avx512f").
  std::vector<std::string> cpuFeatures;
  /// The oldest GPU architecture that can run the plan ("sm_90"); "" for CPUs.
  std::string targetGpu;
  std::string kernelFile; ///< plain name inside PLAN/kernels/, or "" for none
  std::string kernelHash; ///< hashFile() of the kernel file
  /// The launch of each kernel, by symbol, in plans for GPUs; empty in plans
  /// for CPUs.
  std::map<std::string, KernelLaunch> kernelLaunches;
  std::vector<int64_t> arenaBytes; ///< device memory, by stage
  std::vector<int64_t> hostBytes;  ///< by stage
  std::vector<int64_t> diskBytes;  ///< by stage
  std::vector<Group> groups;
  std::vector<Frame> frames;
  std::vector<Buffer> buffers;
  std::vector<Tensor> tensors;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<ScalarInput> scalars;
  LrSchedule lrSchedule;
  /// By PhaseName; a phase may be empty or absent.
  std::map<std::string, std::vector<Instruction>> phases;
  /// One list per rank.
  std::vector<std::vector<ScheduleEntry>> schedule;

  int64_t ranks() const { return mesh.ranks(); }
  /// The rank of each process; empty if `processes` is empty.
  std::vector<int> ranksOfProcesses() const;
  /// The size in bytes of a memory space on the ranks of a stage.
  int64_t bytesOf(Space space, int64_t stage) const;
};

/// The instructions of all phases.
std::vector<const Instruction *> instructionsOf(const Plan &plan);
/// The ops of one kind in all phases.
template <typename Op> std::vector<const Op *> opsOf(const Plan &plan) {
  std::vector<const Op *> ops;
  for (const Instruction *instruction : instructionsOf(plan))
    if (auto *op = std::get_if<Op>(&instruction->op))
      ops.push_back(op);
  return ops;
}

/// Whether the plan has fp8 GEMMs.
bool hasFp8(const Plan &plan);

/// The offset of a buffer in its memory space, in a schedule entry with these
/// slots. If the buffer is in a frame, `slots` must contain a slot of this
/// frame.
int64_t addressOf(const Plan &plan, int buffer,
                  const std::vector<FrameSlot> &slots);

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 9> kNamesOf<rt::BufferKind> = {
    "parameter",     "gradient", "optimizer", "activation", "workspace",
    "communication", "input",    "scalar",    "output"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::Space> = {
    "device", "host", "disk"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::TensorRole> = {
    "parameter", "buffer", "state"};
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<rt::InitKind> = {
    "zeros", "source", "random", "value"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::LrKind> = {
    "constant", "cosine", "linear"};
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<rt::ScalarKind> = {
    "const", "offset", "valid", "coord"};
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<rt::PhaseKind> = {
    "setup", "forward", "backward", "weight", "update"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::Queue> = {
    "compute", "comm", "copy"};
} // namespace dpc

#endif // DPC_RUNTIME_PLAN_PLAN_H
