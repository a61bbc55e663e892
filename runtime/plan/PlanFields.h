//===- PlanFields.h - the fields of every struct of a plan ------*- C++ -*-===//
//
// `fields(visit, value)` calls visit("name", value.member) for each member, in
// the order of plan.json. Used to write and to read plan.json.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include <type_traits>
#include <utility>

namespace dpc::rt {

template <typename T, typename S>
concept Is = std::is_same_v<std::remove_const_t<T>, S>;

template <typename V> void each(V & /*visit*/) {}
/// Calls visit(name, member) for each name and member in the arguments.
template <typename V, typename M, typename... Rest>
void each(V &visit, const char *name, M &member, Rest &&...rest) {
  visit(name, member);
  each(visit, std::forward<Rest>(rest)...);
}

template <typename V> void fields(V &visit, Is<MeshAxis> auto &v) {
  each(visit, "name", v.name, "size", v.size);
}
template <typename V> void fields(V &visit, Is<Factor> auto &v) {
  each(visit, "size", v.size, "axes", v.axes);
}
template <typename V> void fields(V &visit, Is<Group> auto &v) {
  each(visit, "id", v.id, "axes", v.axes, "members", v.members);
}
template <typename V> void fields(V &visit, Is<Frame> auto &v) {
  each(visit, "id", v.id, "stage", v.stage, "chunk", v.chunk, "bytes", v.bytes,
       "count", v.count, "offset", v.offset);
}
template <typename V> void fields(V &visit, Is<Buffer> auto &v) {
  each(visit, "id", v.id, "name", v.name, "dtype", v.dtype, "shape", v.shape,
       "stage", v.stage, "space", v.space, "frame", v.frame, "offset", v.offset,
       "bytes", v.bytes, "kind", v.kind, "view_of", v.viewOf);
}
template <typename V> void fields(V &visit, Is<TensorSource> auto &v) {
  each(visit, "file", v.file, "offset", v.offset, "bytes", v.bytes, "dtype",
       v.dtype);
}
template <typename V> void fields(V &visit, Is<SourceFile> auto &v) {
  each(visit, "file", v.file, "bytes", v.bytes, "hash", v.hash);
}
template <typename V> void fields(V &visit, Is<Setting> auto &v) {
  each(visit, "name", v.name, "value", v.value);
}
template <typename V> void fields(V &visit, Is<Tensor> auto &v) {
  each(visit, "name", v.name, "role", v.role, "of", v.of, "slot", v.slot,
       "buffer", v.buffer, "copies", v.copies, "dtype", v.dtype, "global_shape",
       v.globalShape, "layout", v.layout, "source", v.source, "init", v.init,
       "seed", v.seed, "value", v.value, "aliases", v.aliases, "unsaved",
       v.isUnsaved);
}
template <typename V> void fields(V &visit, Is<Dependence> auto &v) {
  each(visit, "lookahead", v.lookahead, "counts_ignored", v.countsIgnored,
       "is_mean", v.isMean, "scales_loss", v.scalesLoss, "weighs_loss",
       v.weighsLoss, "is_target", v.isTarget, "lowest", v.lowest, "highest",
       v.highest, "hidden", v.hidden, "padding", v.padding, "reads_last",
       v.readsLast, "converted_to", v.convertedTo, "shift", v.shift, "scale",
       v.scale, "class_weights", v.classWeights, "class_dim", v.classDim,
       "ignores_zero", v.ignoresZero, "counted_by", v.countedBy);
}
template <typename V> void fields(V &visit, Is<Port> auto &v) {
  each(visit, "name", v.name, "buffer", v.buffer, "dtype", v.dtype,
       "global_shape", v.globalShape, "layout", v.layout, "limit", v.limit,
       "ignored", v.ignored, "first", v.first, "use", v.use, "batch_dim",
       v.batchDim, "faults", v.faults, "dependence", v.dependence);
}
template <typename V> void fields(V &visit, Is<LrSchedule> auto &v) {
  each(visit, "kind", v.kind, "lr", v.lr, "warmup", v.warmup, "total", v.total,
       "min", v.min);
}
template <typename V> void fields(V &visit, Is<ScalarInput> auto &v) {
  each(visit, "name", v.name, "buffer", v.buffer, "skips", v.skips);
}
template <typename V> void fields(V &visit, Is<ScalarExpr> auto &v) {
  each(visit, "kind", v.kind, "value", v.value, "size", v.size, "axes", v.axes);
}
template <typename V> void fields(V &visit, Is<FrameSlot> auto &v) {
  each(visit, "frame", v.frame, "slot", v.slot);
}
template <typename V> void fields(V &visit, Is<ScheduleEntry> auto &v) {
  each(visit, "phase", v.phase, "micro_batch", v.microBatch, "slots", v.slots);
}

template <typename V> void fields(V &visit, Is<KernelOp> auto &v) {
  each(visit, "symbol", v.symbol, "buffers", v.buffers, "writes", v.writes,
       "scalars", v.scalars);
}
template <typename V> void fields(V &visit, Is<KernelLaunch> auto &v) {
  each(visit, "blocks", v.blocks, "threads", v.threads, "shared_bytes",
       v.sharedBytes);
}
template <typename V> void fields(V &visit, Is<Fp8Factors> auto &v) {
  each(visit, "a", v.a, "b", v.b, "workspace", v.workspace);
}
template <typename V> void fields(V &visit, Is<MatmulOp> auto &v) {
  each(visit, "a", v.a, "b", v.b, "c", v.c, "a_offset", v.aOffset, "b_offset",
       v.bOffset, "c_offset", v.cOffset, "m", v.m, "n", v.n, "k", v.k,
       "trans_a", v.transA, "trans_b", v.transB, "lda", v.lda, "ldb", v.ldb,
       "ldc", v.ldc, "batch", v.batch, "stride_a", v.strideA, "stride_b",
       v.strideB, "stride_c", v.strideC, "batch2", v.batch2, "stride2_a",
       v.stride2A, "stride2_b", v.stride2B, "stride2_c", v.stride2C, "alpha",
       v.alpha, "beta", v.beta, "compute", v.compute, "epilogue", v.epilogue,
       "bias", v.bias, "aux", v.aux, "bias_offset", v.biasOffset, "aux_offset",
       v.auxOffset, "aux_ld", v.auxLd, "fp8", v.fp8);
}
template <typename V> void fields(V &visit, Is<ExpertMatmulOp> auto &v) {
  each(visit, "kind", v.kind, "x", v.x, "ids", v.ids, "w", v.w, "y", v.y,
       "rows", v.rows, "shares_x", v.sharesX, "shares_y", v.sharesY, "experts",
       v.experts, "k", v.k, "n", v.n, "trans_w", v.transW, "accumulates",
       v.accumulates, "first", v.first, "valid", v.valid, "workspace",
       v.workspace, "compute", v.compute);
}
template <typename V> void fields(V &visit, Is<TileBuffer> auto &v) {
  each(visit, "buffer", v.buffer, "tile", v.tile, "shares", v.shares);
}
template <typename V> void fields(V &visit, Is<ExpertTilesOp> auto &v) {
  each(visit, "group", v.group, "ids", v.ids, "tile_ids", v.tileIds, "rows",
       v.rows, "tile_rows", v.tileRows, "experts", v.experts, "first", v.first,
       "valid", v.valid, "workspace", v.workspace, "staged", v.staged, "takes",
       v.takes, "adds", v.adds, "sums", v.sums, "body", v.body);
}
template <typename V> void fields(V &visit, Is<ConvOp> auto &v) {
  each(visit, "kind", v.kind, "x", v.x, "w", v.w, "y", v.y, "x_shape", v.xShape,
       "w_shape", v.wShape, "y_shape", v.yShape, "strides", v.strides,
       "dilations", v.dilations, "pads", v.pads, "compute", v.compute);
}
template <typename V> void fields(V &visit, Is<AttentionShape> auto &v) {
  each(visit, "batch", v.batch, "heads", v.heads, "groups", v.groups, "queries",
       v.queries, "keys", v.keys, "depth", v.depth, "value_depth", v.valueDepth,
       "scale", v.scale, "causal", v.causal, "compute", v.compute, "window",
       v.window);
}
template <typename V> void fields(V &visit, Is<AttentionTensor> auto &v) {
  each(visit, "buffer", v.buffer, "offset", v.offset, "strides", v.strides);
}
template <typename V> void fields(V &visit, Is<AttentionOp> auto &v) {
  each(visit, "shape", v.shape, "q", v.q, "k", v.k, "v", v.v, "out", v.out,
       "lse", v.lse);
}
template <typename V> void fields(V &visit, Is<AttentionGradOp> auto &v) {
  each(visit, "shape", v.shape, "q", v.q, "k", v.k, "v", v.v, "out", v.out,
       "dout", v.dout, "lse", v.lse, "dq", v.dq, "dk", v.dk, "dv", v.dv,
       "workspace", v.workspace);
}
template <typename V> void fields(V &visit, Is<AllReduceOp> auto &v) {
  each(visit, "group", v.group, "buffers", v.buffers, "kind", v.kind);
}
template <typename V> void fields(V &visit, Is<AllGatherOp> auto &v) {
  each(visit, "group", v.group, "ins", v.ins, "outs", v.outs);
}
template <typename V> void fields(V &visit, Is<ReduceScatterOp> auto &v) {
  each(visit, "group", v.group, "ins", v.ins, "outs", v.outs, "kind", v.kind);
}
template <typename V> void fields(V &visit, Is<AllToAllOp> auto &v) {
  each(visit, "group", v.group, "in", v.in, "out", v.out);
}
template <typename V> void fields(V &visit, Is<BroadcastOp> auto &v) {
  each(visit, "group", v.group, "buffer", v.buffer, "root", v.root);
}
template <typename V> void fields(V &visit, Is<SendOp> auto &v) {
  each(visit, "group", v.group, "buffer", v.buffer, "shift", v.shift, "wrap",
       v.wrap, "tag", v.tag);
}
template <typename V> void fields(V &visit, Is<RecvOp> auto &v) {
  each(visit, "group", v.group, "buffer", v.buffer, "shift", v.shift, "wrap",
       v.wrap, "tag", v.tag);
}
template <typename V> void fields(V &visit, Is<CopyOp> auto &v) {
  each(visit, "in", v.in, "out", v.out, "in_offset", v.inOffset, "out_offset",
       v.outOffset, "bytes", v.bytes);
}
template <typename V> void fields(V &visit, Is<TransferOp> auto &v) {
  each(visit, "in", v.in, "out", v.out);
}
template <typename V> void fields(V &visit, Is<FillOp> auto &v) {
  each(visit, "buffer", v.buffer, "value", v.value);
}
template <typename V> void fields(V &visit, Is<LoadInputOp> auto &v) {
  each(visit, "input", v.input, "buffer", v.buffer);
}
template <typename V> void fields(V &visit, Is<StoreOutputOp> auto &v) {
  visit("output", v.output);
}
/// The fields of the op follow in the file.
template <typename V> void fields(V &visit, Is<Instruction> auto &v) {
  each(visit, "queue", v.queue, "waits", v.waits, "signals", v.signals, "name",
       v.name, "flops", v.flops);
}

/// All fields except the version and the checksum.
template <typename V> void fields(V &visit, Is<Plan> auto &v) {
  each(visit, "model", v.model, "mesh", v.mesh.axes, "processes", v.processes,
       "micro_batches", v.mesh.microBatches, "batch_shares", v.mesh.batchShares,
       "trains", v.trains, "loss_output", v.lossOutput, "settings", v.settings,
       "target_cpu", v.targetCpu, "cpu_features", v.cpuFeatures, "target_gpu",
       v.targetGpu, "kernel_file", v.kernelFile, "kernel_hash", v.kernelHash,
       "kernel_launches", v.kernelLaunches, "arena_bytes", v.arenaBytes,
       "host_bytes", v.hostBytes, "disk_bytes", v.diskBytes, "groups", v.groups,
       "frames", v.frames, "buffers", v.buffers, "tensors", v.tensors,
       "source_files", v.sourceFiles, "unread_weights", v.unreadWeights,
       "inputs", v.inputs, "outputs", v.outputs, "scalars", v.scalars,
       "lr_schedule", v.lrSchedule, "phases", v.phases, "schedule", v.schedule);
}

} // namespace dpc::rt
