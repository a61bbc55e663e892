//===- Plan.h - the contents of a plan folder -------------------*- C++ -*-===//
//
// A plan is the program of one training (or inference) step for every rank:
// buffers in one arena, instructions over them, and a schedule. It contains no
// compiler types. PlanJson.h writes and reads plan.json; PlanValidate.h checks
// everything that can be checked before a run.
//
// Meaning, in brief:
// - Ranks are numbered row-major over `mesh.axes`, first axis outermost. The
//   coordinate along "pp" is a rank's pipeline stage (0 without that axis). All
// ranks of a stage have the same buffers and phases; they differ in the data
// that they hold and in the values of ScalarExpr. A buffer belongs to one
// stage, and so does every value in it.
// - A step runs `schedule[rank]` from first to last: each entry runs one phase
//   for one micro-batch. Before a step the runtime fills the scalar buffers;
//   after it, it reads the outputs.
// - A value that one phase of a micro-batch leaves for another phase of the
//   same micro-batch lies in a frame. A frame has as many slots as
//   micro-batches are alive at once; a schedule entry names the slot of its
//   micro-batch.
// - Each rank has three queues: compute, comm and copy. A queue runs its
//   instructions in order. Between queues, only events establish an order: an
//   instruction that waits for event e starts after the instruction that
//   signals e has ended (its last run before the waiter in the schedule).
//   Events reach across phases. The queues join at the end of a step.
// - A collective ("all_reduce" ...) is in the comm queue; all ranks of a group
//   issue the same collectives in the same order.
// - Each rank has three memory spaces, each with its own size: device, host and
//   disk. Persistent values may lie in any of them. Only a "transfer", in the
//   copy queue, touches buffers outside the device space.
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
/// from step to step and share their bytes with no other buffer.
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

/// The memory space of a buffer: device memory, where a rank computes and
/// communicates; host memory; or a file on disk.
enum class Space { Device, Host, Disk };
inline constexpr int kNumSpaces = 3;

/// Memory for the values that a chunk of the model keeps for a micro-batch
/// between phases. There are `count` slots; slot i begins at offset + i *
/// bytes.
struct Frame {
  int id = -1;        ///< equals its index in Plan::frames
  int64_t stage = 0;  ///< coordinate along "pp"
  int64_t chunk = 0;  ///< index among the chunks of the stage
  int64_t bytes = 0;  ///< of one slot, a multiple of 64
  int64_t count = 1;  ///< slots
  int64_t offset = 0; ///< from the arena's start, 64-byte aligned
};

/// A range of an arena, or of a slot of a frame, that holds a dense row-major
/// array. Frames and views are in the device arena.
struct Buffer {
  int id = -1; ///< equals its index in Plan::buffers
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local shape, padding included
  int64_t stage = 0; ///< coordinate along "pp" of the ranks that have it
  Space space = Space::Device;
  int frame = -1;     ///< index in Plan::frames, or -1: in the arena itself
  int64_t offset = 0; ///< bytes from the start of the arena or slot, 64-aligned
  int64_t bytes = 0;  ///< product of shape times size of dtype
  BufferKind kind = BufferKind::Activation;
  /// Id of the buffer that this buffer is a view of, or -1. A view lies inside
  /// its parent and has the same live range (a reshape, a slice of a bucket);
  /// its offset needs only the alignment of its dtype. The parent is not a view
  /// itself.
  int viewOf = -1;
};

/// The partition of the ranks of `mesh` into groups along `axes` (given in any
/// order; the index within a group is row-major over `axes` in mesh order).
std::vector<std::vector<int>>
groupMembers(const Mesh &mesh, const std::vector<std::string> &axes);

/// The location of a tensor's initial values: `bytes` bytes of row-major
/// `dtype` at `offset` of `file` (relative to the plan folder, or absolute).
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
  /// For a state, the name of its parameter, or "" for a state of the whole
  /// step. Otherwise "".
  std::string of;
  /// For a state, its kind ("exp_avg", "exp_avg_sq", "momentum", ..). Otherwise
  /// "".
  std::string slot;
  int buffer = -1;
  /// Buffers of other stages that hold the same values (tied parameters). They
  /// are filled and updated in the same way; checkpoints save `buffer`.
  std::vector<int> copies;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout; ///< must not mention "mb"
  std::optional<TensorSource> source;
  InitKind init = InitKind::Zeros;
  int64_t seed = 0; ///< for Random
  double value = 0; ///< for Value: the value of all elements

  /// `copies`, then `buffer`.
  std::vector<int> allBuffers() const;
};

/// An input of the step (over the global batch) or an output of it. A
/// "load_input" writes an input to `buffer`, and to corresponding buffers on
/// other stages. A "store_output" reads an output from its buffer; if no
/// instruction stores it, the runtime reads it after the step (then its layout
/// must not mention "mb").
struct Port {
  std::string name;
  int buffer = -1;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout;
  /// For integer inputs: values lie in [0, limit), such as the vocabulary size.
  /// Bounds random data and checks tokens. 0: unknown.
  int64_t limit = 0;
};

enum class LrKind { Constant, Cosine, Linear };

/// Learning rate of step t (1-based), with s = t - 1: lr * s / warmup while
/// s < warmup; then lr (constant) or min + (lr - min) * c, where c is
/// (1 + cos(pi p)) / 2 (cosine) or 1 - p (linear) with
/// p = (s - warmup) / (total - warmup), at most 1. This matches Megatron-LM's
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
/// step: "lr" or "step" (1-based). Every stage that reads it has its own
/// buffer. `skips` (or -1) is a buffer of the same stage that holds an fp32
/// state: the number of steps so far that updated nothing. "lr" is then the
/// rate of the step number minus this count, so the learning rate schedule does
/// not advance while the parameters stay the same.
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

/// An integer argument of a kernel, evaluated per (rank, micro-batch).
struct ScalarExpr {
  ScalarKind kind = ScalarKind::Const;
  int64_t value = 0;             ///< for Const
  int64_t size = 0;              ///< for Offset and Valid: size of the factor
  std::vector<std::string> axes; ///< for Offset, Valid and Coord; may include
                                 ///< "mb"
};
int64_t evaluate(const ScalarExpr &expr, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Calls SYMBOL(void *const *buffers, const int64_t *scalars) of kernels.so, or
/// launches SYMBOL of kernels.ptx with the geometry of kernelLaunches. The
/// parameters of a launch are the addresses of the buffers and then the scalars
/// (64 bits each). A buffer that is both read and written is listed twice.
struct KernelOp {
  std::string symbol;
  std::vector<int> buffers;
  std::vector<int> writes; ///< positions of written buffers in `buffers`
  std::vector<ScalarExpr> scalars;
};

/// The geometry of a launch of a kernel of kernels.ptx, in one dimension.
struct KernelLaunch {
  int64_t blocks = 1;
  int64_t threads = 32;    ///< per block
  int64_t sharedBytes = 0; ///< dynamic shared memory per block
};

/// C[i][j] = alpha * op(A[i][j]) * op(B[i][j]) + beta * C[i][j] for i < batch,
/// j < batch2. Matrices are row-major; op(A) is m x k, stored k x m when
/// transA; op(B) is k x n, stored n x k when transB. Offsets, leading
/// dimensions and strides are in elements: matrix (i, j) of A starts at
/// aOffset + i * strideA + j * stride2A. A stride of 0 repeats the matrix.
struct MatmulOp {
  int a = -1, b = -1, c = -1;
  int64_t aOffset = 0, bOffset = 0, cOffset = 0;
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, strideA = 0, strideB = 0, strideC = 0;
  int64_t batch2 = 1, stride2A = 0, stride2B = 0, stride2C = 0;
  double alpha = 1, beta = 0;
  /// Type of the arithmetic: F32 (A, B, C f32), F64 (all f64), or BF16 (A and B
  /// bf16, or f32 rounded to bf16; C f32 or bf16; sums in f32).
  DType compute = DType::F32;
  /// An epilogue requires one matrix, alpha 1 and, unless it only sums a
  /// factor, beta 0. `bias` and `aux` are buffers of C's type, or -1 if the
  /// epilogue has none. They begin at the given offsets; rows of aux are auxLd
  /// apart. Offsets and auxLd are in elements.
  Epilogue epilogue = Epilogue::None;
  int bias = -1, aux = -1;
  int64_t biasOffset = 0, auxOffset = 0, auxLd = 0;
  /// Requires one matrix, with A and B of bf16.
  std::optional<Fp8Factors> fp8;
};

/// Reduces each buffer over the group, in place.
struct AllReduceOp {
  int group = -1;
  std::vector<int> buffers;
  ReduceKind kind = ReduceKind::Sum;
};
/// For each pair of ins and outs: out[i] = in of member i; out is group size
/// times as large as in.
struct AllGatherOp {
  int group = -1;
  std::vector<int> ins, outs;
};
/// For each pair: out = reduction over the members of their in[my index].
struct ReduceScatterOp {
  int group = -1;
  std::vector<int> ins, outs;
  ReduceKind kind = ReduceKind::Sum;
};
/// out[i] = in[my index] of member i; in and out have one chunk per member.
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
/// A message to or from the member `shift` places after this one in the group.
/// With `wrap` the group is a ring; without it, this rank does nothing when the
/// peer is outside the group. A recv of the same group, tag and micro-batch
/// receives the message. Sends wait for nobody, so messages with different tags
/// or micro-batches may be sent and received in any order.
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
/// Copies all of `in` to `out`, one of which is in the device space and the
/// other is not. Runs in the copy queue.
struct TransferOp {
  int in = -1, out = -1;
};
/// Sets every element of the buffer to `value`.
struct FillOp {
  int buffer = -1;
  double value = 0;
};
/// Copies the shard of (rank, micro-batch) of this step's input into `buffer`
/// and fills the padding with zeros.
struct LoadInputOp {
  int input = -1; ///< index in Plan::inputs
  int buffer = -1;
};
/// Copies the shard of (rank, micro-batch) of an output from its buffer.
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
/// Whether the op communicates with other ranks, and so belongs to the comm
/// queue.
bool isCollective(const OpVariant &op);

/// The group of a collective or message; -1 for other ops.
int groupOf(const OpVariant &op);
/// The ranks of `group` that `rank` communicates with, itself included,
/// ascending.
const std::vector<int> &cellOf(const Group &group, int rank);
/// The rank at the other end of a message, or -1 when it leaves the group.
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

/// The parts of the key of a phase: "forward", "backward.1" (chunk 1), or, with
/// a "pp" axis, "s2.forward" (stage 2). A "weight" phase computes the gradients
/// of weights; the "backward" phase then computes only those of activations.
struct PhaseName {
  int64_t stage = 0;
  PhaseKind kind = PhaseKind::Forward;
  int64_t chunk = 0; ///< 0 in setup and update

  std::string text(const Mesh &mesh) const;
  /// Nullopt when `text` is not the name of a phase on this mesh.
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
  /// One for each frame that an instruction of the phase accesses.
  std::vector<FrameSlot> slots;
  bool operator==(const ScheduleEntry &) const = default;
};

/// A whole plan; see the top of this file.
struct Plan {
  int version = kPlanVersion;
  std::string model;
  Mesh mesh; ///< rank axes, and the micro-batches of data-parallel ranks
  /// By rank: the index of its process in a job with one process per rank.
  /// Processes are numbered machine by machine, so this assigns ranks to
  /// machines. Empty: each rank is the process of its own number.
  std::vector<int> processes;
  bool trains = false;
  std::string targetCpu; ///< LLVM's CPU name
  /// CPU features that the kernels use, in LLVM's spelling ("avx512f"); a
  /// machine that lacks one of them refuses to run the plan.
  std::vector<std::string> cpuFeatures;
  /// "sm_90": the plan is for GPUs of this architecture or a later one. "": the
  /// plan is for CPUs.
  std::string targetGpu;
  std::string kernelFile; ///< plain name inside PLAN/kernels/, or "" for none
  std::string kernelHash; ///< hashFile() of the kernel file
  /// By symbol, for every kernel of a plan for GPUs; empty in other plans.
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
  /// By process: its rank; empty if `processes` is empty.
  std::vector<int> ranksOfProcesses() const;
  /// The size of a space on the ranks of a stage.
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

/// The offset of a buffer in its space during a schedule entry with these
/// slots. The slots must include the buffer's frame if it has one.
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
