//===- Plan.h - the contents of a plan folder -------------------*- C++ -*-===//
//
// A plan is the program of one step of training or inference for all ranks:
// buffers in an arena, instructions that access them, and a schedule.
// PlanJson.h writes and reads plan.json. PlanValidate.h checks plans.
//
// - Ranks are numbered row-major over `mesh.axes`; the first axis is the
//   outermost. The pipeline stage of a rank is its coordinate on "pp" (0
//   without this axis). All ranks of a stage have the same buffers and phases,
//   but different data and values of ScalarExpr. A buffer belongs to one stage.
// - A step runs the entries of `schedule[rank]` in order. Each entry runs one
//   phase for one micro-batch. The runtime fills the scalar buffers before the
//   step and reads the outputs after the step.
// - A frame contains the values that a micro-batch keeps between phases. It has
//   as many slots as micro-batches are active at the same time. A schedule
//   entry contains the slot of its micro-batch.
// - Each rank has three queues: compute, comm and copy. A queue runs its
//   instructions in order. Only events order instructions of different queues:
//   an instruction that waits for event e starts after the end of the
//   instruction that signals e. If that instruction is executed several times,
//   the wait is for its last execution before the waiting instruction in the
//   schedule, even in another phase. All queues end before the next step.
// - Collectives ("all_reduce" ...) are in the comm queue. All ranks of a group
//   issue the same collectives in the same order.
// - Each rank has three memory spaces: device, host and disk. Persistent values
//   may be in any of them. Other spaces than the device space are accessed only
//   by a "transfer", which is in the copy queue.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/EnumNames.h"
#include "runtime/base/Group.h"
#include "runtime/base/Layout.h"
#include "runtime/plan/InputUse.h"
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

inline constexpr int kPlanVersion = 18;

/// Parameter, Optimizer and Scalar buffers persist from step to step, so that
/// they cannot share memory with other buffers.
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

/// Device memory (for computation and communication), host memory, or a file.
enum class Space { Device, Host, Disk };

/// The memory in which a chunk of the model keeps values of each micro-batch
/// between phases. Slot i begins at offset + i * bytes.
struct Frame {
  int id = -1;        ///< index in Plan::frames
  int64_t stage = 0;  ///< coordinate along "pp"
  int64_t chunk = 0;  ///< index in the stage
  int64_t bytes = 0;  ///< of a slot; a multiple of 64
  int64_t count = 1;  ///< number of slots
  int64_t offset = 0; ///< in the arena; a multiple of 64
};

/// A dense row-major array in an arena or in each slot of a frame. Frames and
/// views are in the device arena.
struct Buffer {
  int id = -1; ///< index in Plan::buffers
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< local shape with padding
  int64_t stage = 0;          ///< all ranks of this stage have the buffer
  Space space = Space::Device;
  int frame = -1;     ///< index in Plan::frames, or -1
  int64_t offset = 0; ///< bytes from the start of the arena or slot
  int64_t bytes = 0;  ///< elements times sizeOf(dtype)
  BufferKind kind = BufferKind::Activation;
  /// -1, or the viewed buffer if this buffer is a view: a part of it with the
  /// same live range (a reshape, a slice of a bucket). The viewed buffer is not
  /// a view. The offset of a view is aligned only to the size of dtype.
  int viewOf = -1;
};

/// Divides the ranks of `mesh` into cells that communicate along `axes`. The
/// ranks of a cell are in ascending order, whatever the order of `axes`.
std::vector<std::vector<int>>
groupMembers(const Mesh &mesh, const std::vector<std::string> &axes);

/// Initial values of a tensor: `bytes` bytes at `offset` of `file`, row-major.
/// A relative path starts at the plan folder.
struct TensorSource {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  DType dtype = DType::F32;
};

/// The contents that a file of initial values had at compile time.
struct SourceFile {
  std::string file; ///< as in TensorSource
  int64_t bytes = 0;
  std::string hash; ///< sampleHash()
};

/// What a run computes, besides weights, data and strategy.
struct Setting {
  std::string name;  ///< "optimizer"
  std::string value; ///< "adamw"
  bool operator==(const Setting &) const = default;
};

enum class TensorRole { Parameter, Buffer, State };

enum class InitKind { Zeros, Source, Random, Value };

/// The file in the folder of a plan with the constants of the program.
inline constexpr const char *kConstantsFile = "constants.bin";

/// A persistent value: a parameter, a model buffer, or an optimizer state.
struct Tensor {
  std::string name; ///< unique; for a parameter, its name in the source model
  TensorRole role = TensorRole::Parameter;
  /// The parameter to which an optimizer state belongs; otherwise "".
  std::string of;
  /// The kind of an optimizer state ("exp_avg", "momentum", ..); otherwise "".
  std::string slot;
  int buffer = -1;
  /// Buffers of other stages with the same values (tied parameters). They are
  /// initialized and updated like `buffer`. Checkpoints contain only `buffer`.
  std::vector<int> copies;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout; ///< must not mention "mb"
  std::optional<TensorSource> source;
  InitKind init = InitKind::Zeros;
  int64_t seed = 0; ///< for Random
  double value = 0; ///< of all elements, for Value
  /// Other names in the source model (tied weights).
  std::vector<std::string> aliases = {};
  /// Whether files of weights lack the tensor: a constant of the program, or a
  /// buffer that the model does not save.
  bool isUnsaved = false;

  /// Whether the tensor is a constant of the program. Its name and its value
  /// mean nothing in another plan of the same model.
  bool isConstant() const {
    return isUnsaved && source && source->file == kConstantsFile;
  }
  /// Whether files of weights contain the tensor, trained or not.
  bool isWeight() const { return role != TensorRole::State && !isUnsaved; }
  /// Returns `copies`, followed by `buffer`.
  std::vector<int> allBuffers() const;
};

/// An input or output of the step, with the shape of the global batch.
/// "load_input" copies an input to `buffer`, or to a buffer of another stage
/// with the same type and size. "store_output" copies an output from `buffer`.
/// If no instruction stores an output, the runtime reads `buffer` after the
/// step, and the layout must not mention "mb".
struct Port {
  std::string name;
  int buffer = -1;
  DType dtype = DType::F32;
  std::vector<int64_t> globalShape;
  Layout layout;
  /// The values of an index input are from `first` to limit - 1. The limit is,
  /// for example, the vocabulary size. Both are 0 if the input is no index.
  int64_t limit = 0;
  /// A label that the loss ignores; an index input also accepts it.
  std::optional<int64_t> ignored = std::nullopt;
  /// Not 0 if the program adds a constant before it uses the index.
  int64_t first = 0;
  InputUse use = InputUse::Data; ///< of an input
  /// The dimension that counts samples, or -1.
  int64_t batchDim = -1;
  /// What an output counts that must be 0, such as "indices of node 'x'
  /// (accepted: 0 to 9)". "": the output is one of the model or the update.
  std::string faults = {};
  Dependence dependence = {}; ///< to an input
};

enum class LrKind { Constant, Cosine, Linear };

/// The learning rate of step t (1-based), as in Megatron-LM with
/// --lr-warmup-iters, --lr-decay-iters, --lr-decay-style and --min-lr. Let s =
/// t - 1. While s < warmup, the rate is lr * s / warmup; then it is lr
/// (constant) or min + (lr - min) * c. With p = min(1, (s - warmup) / (total -
/// warmup)), c is (1 + cos(pi p)) / 2 (cosine) or 1 - p (linear).
struct LrSchedule {
  LrKind kind = LrKind::Constant;
  double lr = 0;
  int64_t warmup = 0;
  int64_t total = 0; ///< steps; more than `warmup` unless constant
  double min = 0;    ///< final rate of cosine and linear
};
double learningRate(const LrSchedule &schedule, int64_t step);

/// A number that the runtime writes to `buffer` (one fp32 element) before each
/// step: "lr", or "step" (1-based). Each stage that reads the number has a
/// separate buffer. `skips` is -1, or a buffer of the same stage (one fp32
/// element) that counts skipped updates. The runtime subtracts it from the step
/// number, so that skipped updates do not advance the learning rate schedule.
struct ScalarInput {
  std::string name;
  int buffer = -1;
  int skips = -1;
};

enum class ScalarKind {
  Const,  ///< value
  Offset, ///< shardOf(size, axes).offset
  Valid,  ///< shardOf(size, axes).valid
  Coord   ///< row-major index of the coordinates on axes
};

/// An integer argument of a kernel; it depends on the rank and micro-batch.
struct ScalarExpr {
  ScalarKind kind = ScalarKind::Const;
  int64_t value = 0;             ///< for Const
  int64_t size = 0;              ///< of the factor, for Offset and Valid
  std::vector<std::string> axes; ///< for Offset, Valid, Coord; may contain "mb"
};
int64_t evaluate(const ScalarExpr &expr, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Calls SYMBOL(void *const *buffers, const int64_t *scalars) in kernels.so. On
/// GPUs, launches SYMBOL in kernels.ptx with the geometry in kernelLaunches;
/// its parameters are the addresses of the buffers, then the scalars (64 bits
/// each). A buffer that the kernel reads and writes is listed twice.
struct KernelOp {
  std::string symbol;
  std::vector<int> buffers;
  std::vector<int> writes; ///< indices in `buffers`
  std::vector<ScalarExpr> scalars;
};

/// The launch geometry of a kernel in kernels.ptx, which has one dimension.
struct KernelLaunch {
  int64_t blocks = 1;
  int64_t threads = 32;    ///< per block
  int64_t sharedBytes = 0; ///< dynamic, per block
};

/// C[i][j] = alpha * op(A[i][j]) * op(B[i][j]) + beta * C[i][j] for all i <
/// batch and j < batch2. Matrices are row-major. op(A) is m x k, and stored as
/// k x m with transA; op(B) is k x n, and stored as n x k with transB. Offsets,
/// leading dimensions and strides are in elements: A[i][j] begins at aOffset +
/// i * strideA + j * stride2A. A stride of 0 repeats a matrix.
struct MatmulOp {
  int a = -1, b = -1, c = -1;
  int64_t aOffset = 0, bOffset = 0, cOffset = 0;
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, strideA = 0, strideB = 0, strideC = 0;
  int64_t batch2 = 1, stride2A = 0, stride2B = 0, stride2C = 0;
  double alpha = 1, beta = 0;
  /// The type of the arithmetic. F32, F64: A, B and C have this type. BF16,
  /// F16: A, B and C have this type or f32; A and B are rounded to this type,
  /// and products are summed in f32.
  DType compute = DType::F32;
  /// An epilogue requires batch = batch2 = 1, alpha = 1 and, except for SumsOfA
  /// and SumsOfB, beta = 0. `bias` and `aux` are buffers of C's type, or -1 if
  /// the epilogue does not use them. biasOffset, auxOffset and auxLd, the
  /// distance of aux's rows, are in elements.
  Epilogue epilogue = Epilogue::None;
  int bias = -1, aux = -1;
  int64_t biasOffset = 0, auxOffset = 0, auxLd = 0;
  /// Requires batch = batch2 = 1, and bf16 for A and B.
  std::optional<Fp8Factors> fp8;
};

enum class ExpertMatmulKind {
  Forward,    ///< y
  GradWeight, ///< w = dL/dw, from x and y = dL/dy
};

/// y[r] = x[r] op(w[e]) for each row r, where e = ids[r] is the number of an
/// expert; or the gradient of this with respect to w, which is 0 for an expert
/// without rows, or is added to w. The arrays are dense and row-major: ids
/// [rows], w [experts, k, n] (with transW, [experts, n, k]), x [rows / sharesX,
/// k] and y [rows / sharesY, n], where consecutive rows share a row of x or y.
/// The rank has the experts from `first` to first + valid - 1; a row of another
/// expert is 0 in y, and adds nothing to w.
struct ExpertMatmulOp {
  ExpertMatmulKind kind = ExpertMatmulKind::Forward;
  int x = -1, ids = -1, w = -1, y = -1; ///< buffers
  int64_t rows = 0, sharesX = 1, sharesY = 1;
  int64_t experts = 0, k = 0, n = 0;
  bool transW = false;      ///< only forward
  bool accumulates = false; ///< only gradients
  ScalarExpr first, valid;
  /// Scratch memory for the order of the rows (PlanExperts.h), or -1, with
  /// which GPUs cannot run the product.
  int workspace = -1;
  /// The type of the arithmetic, and of both factors. The result has this type,
  /// or f32 if the factors are bf16 or f16, which are summed in f32.
  DType compute = DType::F32;
};

/// Rows [rows / shares, ..] and those of a tile [tileRows, ..]; `shares` rows
/// of ExpertTilesOp share a row of `buffer`. With 0, both have one shape.
struct TileBuffer {
  int buffer = -1, tile = -1;
  int64_t shares = 1;
};

struct Instruction;

/// Fills the buffers of `adds` and `sums` with zeros. Sorts the rows whose ids
/// are experts of the rank and divides them into tiles of tileRows rows, the
/// last of which may have fewer. For each tile: writes their ids to tileIds and
/// their rows to the tiles of `takes`, followed by -1 and zeros; runs `body`;
/// adds the rows of the tiles of `adds` to the rows in their buffers. Only
/// `adds` may have shares of 0: the whole tile is added, whatever it has.
///
/// With `group`, the op is a collective: the members exchange their rows in
/// rounds of at most tileRows rows, which is at least the number of members.
/// Rows that leave or return pass through `staged` (ExpertExchange.h).
/// The arrays are dense. The body has kernels and products of experts, without
/// events, and may add to the buffers `sums`.
struct ExpertTilesOp {
  int group = -1;             ///< -1: no rows are exchanged
  int ids = -1, tileIds = -1; ///< [rows], [tileRows]
  int64_t rows = 0, tileRows = 0;
  int64_t experts = 0; ///< of the rank, with padding
  ScalarExpr first, valid;
  int workspace = -1; ///< as in ExpertMatmulOp
  int staged = -1;    ///< as large as the largest tile that is exchanged
  std::vector<TileBuffer> takes, adds;
  std::vector<int> sums;
  std::vector<Instruction> body;
};

/// Reduces each buffer over the group, in place.
struct AllReduceOp {
  int group = -1;
  std::vector<int> buffers;
  ReduceKind kind = ReduceKind::Sum;
};
/// For each pair of `in` and `out`: part i of `out` is `in` of member i.
struct AllGatherOp {
  int group = -1;
  std::vector<int> ins, outs;
};
/// For each pair of `in` and `out`: `out` of member i is the reduction of part
/// i of `in` over all members.
struct ReduceScatterOp {
  int group = -1;
  std::vector<int> ins, outs;
  ReduceKind kind = ReduceKind::Sum;
};
/// Part i of member j's `out` is part j of member i's `in`. There is one part
/// for each member.
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
/// A message to (send) or from (recv) the peer: the rank `shift` places after
/// this rank in the group. With `wrap`, the group is a ring; otherwise, the op
/// does nothing if there is no peer. A recv receives the message with its
/// group, tag and micro-batch. Sends do not wait, so messages with different
/// tags or micro-batches can be received in any order.
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
/// Returns the key by which communicators match messages: tag and micro-batch.
int64_t messageTag(int64_t tag, const Mesh &mesh, int64_t microBatch);
/// Copies `bytes` bytes. Offsets are in bytes.
struct CopyOp {
  int in = -1, out = -1;
  int64_t inOffset = 0, outOffset = 0;
  int64_t bytes = 0;
};
/// Copies all of `in` to `out`, exactly one of which is in device memory. Runs
/// in the copy queue.
struct TransferOp {
  int in = -1, out = -1;
};
struct FillOp {
  int buffer = -1;
  double value = 0;
};
/// Copies the input's shard of this rank and micro-batch to `buffer`, and fills
/// the padding with zeros.
struct LoadInputOp {
  int input = -1; ///< index in Plan::inputs
  int buffer = -1;
};
/// Copies the shard of this rank and micro-batch from the output's buffer.
struct StoreOutputOp {
  int output = -1; ///< index in Plan::outputs
};

using OpVariant =
    std::variant<KernelOp, MatmulOp, ExpertMatmulOp, ExpertTilesOp, ConvOp,
                 AttentionOp, AttentionGradOp, AllReduceOp, AllGatherOp,
                 ReduceScatterOp, AllToAllOp, BroadcastOp, SendOp, RecvOp,
                 CopyOp, TransferOp, FillOp, LoadInputOp, StoreOutputOp>;

enum class Queue { Compute, Comm, Copy };
inline constexpr int kNumQueues = 3;

struct Instruction {
  Queue queue = Queue::Compute;
  std::vector<int> waits; ///< events, see the top of this file
  int signals = -1; ///< -1, or an event that only this instruction signals
  std::string name; ///< of the source op
  double flops = 0; ///< per execution, for traces
  OpVariant op;
};
/// "kernel", "matmul", ...
std::string_view opName(const OpVariant &op);
/// Returns whether the op is a collective or a message.
bool isCollective(const OpVariant &op);

/// Returns -1 if the op is not a collective or a message.
int groupOf(const OpVariant &op);
/// Returns the cell of `group` that contains `rank`.
const std::vector<int> &cellOf(const Group &group, int rank);
/// Returns -1 if the message has no peer.
int peerOf(const Group &group, const SendOp &op, int rank);
int peerOf(const Group &group, const RecvOp &op, int rank);

/// The ids of the buffers that an instruction accesses, possibly repeated.
struct Accesses {
  std::vector<int> reads;
  std::vector<int> writes;
};
struct Plan;
Accesses accessesOf(const Instruction &instruction, const Plan &plan);
/// Returns the buffers with the results of an instruction: those it writes,
/// except tiles, whose last rows mean nothing.
std::vector<int> resultsOf(const Instruction &instruction, const Plan &plan);

enum class PhaseKind { Setup, Forward, Backward, Weight, Update };

/// The parts of a phase name: "forward", "backward.1" (chunk 1), or
/// "s2.forward" (stage 2, on a mesh with "pp"). If there are "weight" phases,
/// they compute the gradients of weights; then "backward" phases do not compute
/// these.
struct PhaseName {
  int64_t stage = 0;
  PhaseKind kind = PhaseKind::Forward;
  int64_t chunk = 0; ///< 0 in setup and update

  std::string text(const Mesh &mesh) const;
  /// Returns nullopt if `text` is not the name of a phase on this mesh.
  static std::optional<PhaseName> parse(const std::string &text,
                                        const Mesh &mesh);
};

struct FrameSlot {
  int frame = -1;
  int64_t slot = 0;
  bool operator==(const FrameSlot &) const = default;
};

struct ScheduleEntry {
  std::string phase; ///< a key of Plan::phases
  int64_t microBatch = 0;
  /// A slot for each frame that the phase accesses.
  std::vector<FrameSlot> slots;
  bool operator==(const ScheduleEntry &) const = default;
};

struct Plan {
  int version = kPlanVersion;
  std::string model;
  Mesh mesh;
  /// The process that runs each rank, in a job with one process per rank.
  /// Processes are numbered machine by machine, so this list assigns ranks to
  /// machines. If it is empty, process i runs rank i.
  std::vector<int> processes;
  bool trains = false;
  /// The model's name of the output that is the loss, or "" if it is unknown.
  /// In a training plan, `outputs` calls it "loss".
  std::string lossOutput;
  /// Each name is unique. See RunSettings.h for names with a meaning here.
  std::vector<Setting> settings;
  std::string targetCpu; ///< LLVM's CPU name
  /// Features that the kernels require, with LLVM's names ("avx512f").
  std::vector<std::string> cpuFeatures;
  /// The oldest architecture that can run the plan ("sm_90"), or "" for CPUs.
  std::string targetGpu;
  std::string kernelFile; ///< file name in PLAN/kernels/, or "" for none
  std::string kernelHash; ///< hashFile() of the kernel file
  /// By symbol; empty in plans for CPUs.
  std::map<std::string, KernelLaunch> kernelLaunches;
  std::vector<int64_t> arenaBytes; ///< device memory, by stage
  std::vector<int64_t> hostBytes;  ///< by stage
  std::vector<int64_t> diskBytes;  ///< by stage
  std::vector<Group> groups;
  std::vector<Frame> frames;
  std::vector<Buffer> buffers;
  std::vector<Tensor> tensors;
  /// One entry for each file that the source of a tensor names, and no other.
  std::vector<SourceFile> sourceFiles;
  /// Names of weights of the source model that no tensor holds, because the
  /// program does not read them or contains them as constants.
  std::vector<std::string> unreadWeights;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<ScalarInput> scalars;
  LrSchedule lrSchedule;
  /// By PhaseName::text(). A phase may be empty or absent.
  std::map<std::string, std::vector<Instruction>> phases;
  /// One list per rank.
  std::vector<std::vector<ScheduleEntry>> schedule;

  int64_t ranks() const { return mesh.ranks(); }
  /// Returns the rank of each process, or {} if `processes` is empty.
  std::vector<int> ranksOfProcesses() const;
  /// Returns the size of a memory space on each rank of a stage.
  int64_t bytesOf(Space space, int64_t stage) const;
};

/// Returns all instructions. Those in the body of an instruction follow it.
std::vector<const Instruction *> instructionsOf(const Plan &plan);
template <typename Op> std::vector<const Op *> opsOf(const Plan &plan) {
  std::vector<const Op *> ops;
  for (const Instruction *instruction : instructionsOf(plan))
    if (auto *op = std::get_if<Op>(&instruction->op))
      ops.push_back(op);
  return ops;
}

bool hasFp8(const Plan &plan);

/// Returns the offset of a buffer in its memory space. If the buffer is in a
/// frame, `slots`, from a schedule entry, must contain a slot of this frame.
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
inline constexpr std::array<std::string_view, 2>
    kNamesOf<rt::ExpertMatmulKind> = {"forward", "grad_weight"};
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<rt::PhaseKind> = {
    "setup", "forward", "backward", "weight", "update"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::Queue> = {
    "compute", "comm", "copy"};
} // namespace dpc
