//===- Plan.h - what a plan folder says -----------------------*- C++ -*-===//
//
// A plan is the program of one training (or inference) step for every rank:
// buffers in one arena, instructions over them, and a schedule. It holds no
// compiler type. PlanJson.h writes and reads plan.json, PlanValidate.h checks
// everything that can be checked before anything runs.
//
// Meaning, in brief:
// - Ranks are numbered row-major over `mesh.axes`, first axis outermost. The
//   coordinate along "pp" is a rank's pipeline stage (0 without that axis). All
//   ranks of a stage have the same buffers and phases; they differ in the data
//   they hold and in the values of ScalarExpr. A buffer, and so what lies in
//   it, belongs to one stage.
// - A step runs `schedule[rank]` from first to last: each entry runs one phase
//   for one micro-batch. Before a step the runtime fills the scalar buffers;
//   after it, it reads the outputs.
// - What lives from one phase of a micro-batch to another of the same lies in
//   a frame, which has as many slots as micro-batches are alive at once; a
//   schedule entry says which slot is its micro-batch's.
// - Each rank has three queues: compute, comm and copy. A queue runs its
//   instructions in order; between queues order exists only through events: an
//   instruction that waits for event e starts after the instruction that
//   signals e has ended (the run of it that precedes the waiter in the
//   schedule). Events reach across phases. The queues join at the end of a
//   step.
// - A collective ("all_reduce" ...) is in the comm queue; all ranks meet the
//   same collectives of a group in the same order.
// - Each rank has three spaces of memory, each with a size of its own: device,
//   host and disk. What persists may lie in any of them; only a "transfer", in
//   the copy queue, touches what is not in the device's.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLAN_H
#define DPC_RUNTIME_PLAN_PLAN_H

#include "runtime/base/DType.h"
#include "runtime/base/Layout.h"
#include "runtime/plan/PlanAttention.h"
#include "runtime/plan/PlanConv.h"
#include "runtime/plan/PlanEpilogue.h"
#include "runtime/plan/PlanFp8.h"
#include "runtime/plan/ReduceKind.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dpc::rt {

/// The plan format this build writes and reads.
inline constexpr int kPlanVersion = 10;

/// What a buffer is for. Parameter, Optimizer and Scalar buffers persist from
/// step to step and share their bytes with no other buffer.
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
/// "parameter", "gradient", ...
std::string_view nameOf(BufferKind kind);
bool isPersistent(BufferKind kind);

/// Which of a rank's memories a buffer lies in: the one that computes and
/// communicates, a larger one beside it, or a file.
enum class Space { Device, Host, Disk };
inline constexpr int kNumSpaces = 3;
/// "device", "host" or "disk".
std::string_view nameOf(Space space);

/// Room for the values that a chunk of the model keeps for a micro-batch
/// between phases, `count` times: slot i begins at offset + i * bytes.
struct Frame {
  int id = -1;        ///< equals its index in Plan::frames
  int64_t stage = 0;  ///< coordinate along "pp"
  int64_t chunk = 0;  ///< of the stage's part of the model
  int64_t bytes = 0;  ///< of one slot, a multiple of 64
  int64_t count = 1;  ///< slots
  int64_t offset = 0; ///< from the arena's start, 64-byte aligned
};

/// A range of an arena, or of a frame's slot, holding a dense row-major array.
/// Frames and views are in the device's arena.
struct Buffer {
  int id = -1; ///< equals its index in Plan::buffers
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local, padding included
  int64_t stage = 0; ///< coordinate along "pp" of the ranks that have it
  Space space = Space::Device;
  int frame = -1;     ///< index in Plan::frames, or -1: in the arena itself
  int64_t offset = 0; ///< bytes from the start of the arena or slot, 64-aligned
  int64_t bytes = 0;  ///< product of shape times size of dtype
  BufferKind kind = BufferKind::Activation;
  /// Id of the buffer whose bytes these are, or -1. A view lies inside its
  /// parent and lives and dies with it (a reshape, a slice of a bucket);
  /// its offset needs only the alignment of its dtype. A parent is no view.
  int viewOf = -1;
};

/// A set of ranks that communicate: all that differ only along `axes`.
struct Group {
  int id = -1; ///< equals its index in Plan::groups
  std::vector<std::string> axes;
  /// The partition of all ranks; each inner list ascends. The position in its
  /// list is a rank's index in the group. See groupMembers().
  std::vector<std::vector<int>> members;
};

/// The partition of the ranks of `mesh` into groups along `axes` (given in any
/// order; the index within a group is row-major over `axes` in mesh order).
std::vector<std::vector<int>>
groupMembers(const Mesh &mesh, const std::vector<std::string> &axes);

/// Where a tensor's first values lie: `bytes` bytes of row-major `dtype` at
/// `offset` of `file` (relative to the plan folder, or absolute).
struct TensorSource {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  DType dtype = DType::F32;
};

enum class TensorRole { Parameter, Buffer, State };
std::string_view nameOf(TensorRole role);

enum class InitKind { Zeros, Source, Random, Value };
std::string_view nameOf(InitKind kind);

/// A value that persists: parameter, model buffer or optimizer state.
struct Tensor {
  std::string name; ///< unique; the source model's name for a parameter
  TensorRole role = TensorRole::Parameter;
  /// State: name of its parameter, "" in a state of the whole step. Else "".
  std::string of;
  /// State: what it is ("exp_avg", "exp_avg_sq", "momentum", ..). Else "".
  std::string slot;
  int buffer = -1;
  /// Buffers of other stages that hold the same values (tied parameters):
  /// filled and updated alike; saved is what `buffer` holds.
  std::vector<int> copies;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout; ///< must not mention "mb"
  std::optional<TensorSource> source;
  InitKind init = InitKind::Zeros;
  int64_t seed = 0; ///< Random
  double value = 0; ///< Value: of all elements
};

/// An input of the step (over the global batch) or an output of it. An input
/// reaches a buffer by "load_input" (`buffer`, and on other stages others like
/// it); an output is taken from its buffer by "store_output", or after the step
/// when no instruction stores it (then its layout must not mention "mb").
struct Port {
  std::string name;
  int buffer = -1;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout;
  /// Integer inputs: values lie in [0, limit), such as the vocabulary's size;
  /// bounds random data and checks tokens. 0: not known.
  int64_t limit = 0;
};

enum class LrKind { Constant, Cosine, Linear };
std::string_view nameOf(LrKind kind);

/// Learning rate of step t (1-based), with s = t - 1: lr * s / warmup while
/// s < warmup; then lr (constant) or min + (lr - min) * c, where c is
/// (1 + cos(pi p)) / 2 (cosine) or 1 - p (linear) with
/// p = (s - warmup) / (total - warmup), at most 1. The same as Megatron-LM's
/// --lr-warmup-iters, --lr-decay-iters, --lr-decay-style and --min-lr.
struct LrSchedule {
  LrKind kind = LrKind::Constant;
  double lr = 0;
  int64_t warmup = 0;
  int64_t total = 0; ///< steps; must exceed warmup unless constant
  double min = 0;    ///< where cosine and linear end
};
double learningRate(const LrSchedule &schedule, int64_t step);

/// A value in a buffer of one fp32 element that the runtime fills before each
/// step: "lr", "step" (1-based). Every stage that reads it has its own.
/// `skips` (or -1) is the buffer, on the same stage, of a state of one fp32
/// that counts the steps so far at which nothing was updated: "lr" is then that
/// of the step number less this count, so that its schedule stands still with
/// the parameters.
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
std::string_view nameOf(ScalarKind kind);

/// An integer argument of a kernel, evaluated per (rank, micro-batch).
struct ScalarExpr {
  ScalarKind kind = ScalarKind::Const;
  int64_t value = 0;             ///< Const
  int64_t size = 0;              ///< Offset, Valid: size of the factor
  std::vector<std::string> axes; ///< Offset, Valid, Coord; may include "mb"
};
int64_t evaluate(const ScalarExpr &expr, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Calls SYMBOL(void *const *buffers, const int64_t *scalars) of kernels.so, or
/// launches SYMBOL of kernels.ptx as kernelLaunches says, with the address of
/// each buffer and then each scalar as its parameters (64 bits each). A buffer
/// that is read and written is listed twice.
struct KernelOp {
  std::string symbol;
  std::vector<int> buffers;
  std::vector<int> writes; ///< positions in `buffers` that are written
  std::vector<ScalarExpr> scalars;
};

/// How a kernel of kernels.ptx is launched: in one dimension.
struct KernelLaunch {
  int64_t blocks = 1;
  int64_t threads = 32;    ///< of a block
  int64_t sharedBytes = 0; ///< of a block, chosen at the launch
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
  /// Type of the products: F32 (A, B, C f32), F64 (all f64), or BF16 (A and B
  /// bf16, or f32 rounded to bf16; C f32 or bf16; sums in f32).
  DType compute = DType::F32;
  /// Of one matrix, with alpha 1 and, unless all it does is to sum a factor,
  /// beta 0. `bias` and `aux` are buffers of C's type, or -1 where the epilogue
  /// has none; they begin at the offsets, in elements, and rows of aux lie
  /// auxLd apart.
  Epilogue epilogue = Epilogue::None;
  int bias = -1, aux = -1;
  int64_t biasOffset = 0, auxOffset = 0, auxLd = 0;
  /// Of one matrix, A and B of bf16.
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
/// For each pair: out = reduction over members of their in[my index].
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
/// buffer of member `root` to all.
struct BroadcastOp {
  int group = -1;
  int buffer = -1;
  int root = 0; ///< index in the group
};
/// To / from the member `shift` places after this one in the group. With
/// `wrap` the group is a ring; without it, a peer outside the group means that
/// this rank does nothing. A message is received by the recv of the same group,
/// tag and micro-batch; sends wait for nobody, so between different tags or
/// micro-batches any order is right.
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
/// What communicators match messages by: the tag and the micro-batch.
int64_t messageTag(int64_t tag, const Mesh &mesh, int64_t microBatch);
/// `bytes` bytes from `in` at inOffset to `out` at outOffset (bytes).
struct CopyOp {
  int in = -1, out = -1;
  int64_t inOffset = 0, outOffset = 0;
  int64_t bytes = 0;
};
/// All of `in` to `out`, of which one is in the device's memory and the other
/// is not. What happens in the copy queue.
struct TransferOp {
  int in = -1, out = -1;
};
/// Every element of the buffer.
struct FillOp {
  int buffer = -1;
  double value = 0;
};
/// The shard of (rank, micro-batch) of this step's input into `buffer`;
/// padding becomes zero.
struct LoadInputOp {
  int input = -1; ///< index in Plan::inputs
  int buffer = -1;
};
/// The shard of (rank, micro-batch) of an output out of its buffer.
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
std::string_view nameOf(Queue queue);

/// One entry of a phase.
struct Instruction {
  Queue queue = Queue::Compute;
  std::vector<int> waits; ///< events; see the top of this file
  int signals = -1;       ///< an event no other instruction signals, or -1
  std::string name;       ///< source op, for traces
  double flops = 0;       ///< of one run, for traces
  OpVariant op;
};
/// "kernel", "matmul", ...
std::string_view opName(const OpVariant &op);
/// Whether the op meets other ranks, and so belongs to the comm queue.
bool isCollective(const OpVariant &op);

/// The group of a collective or message; -1 for other ops.
int groupOf(const OpVariant &op);
/// The ranks of `group` that `rank` meets, itself included, ascending.
const std::vector<int> &cellOf(const Group &group, int rank);
/// The rank at the other end of a message, or -1 when it leaves the group.
int peerOf(const Group &group, const SendOp &op, int rank);
int peerOf(const Group &group, const RecvOp &op, int rank);

/// Which buffers an instruction reads and writes (ids, with repetitions).
struct Accesses {
  std::vector<int> reads;
  std::vector<int> writes;
};
struct Plan;
Accesses accessesOf(const Instruction &instruction, const Plan &plan);

enum class PhaseKind { Setup, Forward, Backward, Weight, Update };
std::string_view nameOf(PhaseKind kind);

/// What the key of a phase says: "forward", "backward.1" (chunk 1); with a
/// "pp" axis "s2.forward" (stage 2). "weight" makes the gradients of weights
/// where "backward" makes those of activations only.
struct PhaseName {
  int64_t stage = 0;
  PhaseKind kind = PhaseKind::Forward;
  int64_t chunk = 0; ///< 0 in setup and update

  std::string text(const Mesh &mesh) const;
  /// Nullopt when `text` names no phase on this mesh.
  static std::optional<PhaseName> parse(const std::string &text,
                                        const Mesh &mesh);
};

/// Which slot of a frame is the micro-batch's.
struct FrameSlot {
  int frame = -1;
  int64_t slot = 0;
  bool operator==(const FrameSlot &) const = default;
};

/// "Run this phase for this micro-batch."
struct ScheduleEntry {
  std::string phase; ///< a key of Plan::phases
  int64_t microBatch = 0;
  /// One for each frame that an instruction of the phase touches.
  std::vector<FrameSlot> slots;
  bool operator==(const ScheduleEntry &) const = default;
};

/// A whole plan; see the top of this file.
struct Plan {
  int version = kPlanVersion;
  std::string model;
  Mesh mesh; ///< rank axes, and the micro-batches of data-parallel ranks
  /// By rank: the process it is, of a job with a process for each. Processes
  /// are numbered machine by machine, so this lays ranks on machines. Empty:
  /// its own number.
  std::vector<int> processes;
  bool trains = false;
  std::string targetCpu; ///< LLVM's CPU name
  /// CPU features the kernels use, as LLVM spells them ("avx512f"); running
  /// is refused on a machine without one of them.
  std::vector<std::string> cpuFeatures;
  /// "sm_90": the plan is for GPUs of this architecture or a later one. "": it
  /// is for CPUs.
  std::string targetGpu;
  std::string kernelFile; ///< plain name inside PLAN/kernels/, or "" for none
  std::string kernelHash; ///< hashFile() of it
  /// By symbol; of every kernel of a plan for GPUs, empty in others.
  std::map<std::string, KernelLaunch> kernelLaunches;
  std::vector<int64_t> arenaBytes; ///< of the device's memory, by stage
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
  /// By process: the rank it is; empty where `processes` is.
  std::vector<int> ranksOfProcesses() const;
  /// The size of a space on the ranks of a stage.
  int64_t bytesOf(Space space, int64_t stage) const;
};

/// Whether a product of the plan multiplies codes of fp8.
bool hasFp8(const Plan &plan);

/// Where a buffer lies in its space during a schedule entry with these slots,
/// which must name the buffer's frame when it has one.
int64_t addressOf(const Plan &plan, int buffer,
                  const std::vector<FrameSlot> &slots);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLAN_H
