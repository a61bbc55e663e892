//===- PlanFields.h - the fields of every struct of a plan ------*- C++ -*-===//
//
// The writer and the reader of plan.json both walk these lists, so a field is
// named in one place. `fields(visit, value)` calls visit("name", value.member)
// for each member in the order of the file.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLANFIELDS_H
#define DPC_RUNTIME_PLAN_PLANFIELDS_H

#include "runtime/plan/Plan.h"

#include <type_traits>

namespace dpc::rt {

/// Whether T is S or const S.
template <typename T, typename S>
concept Is = std::is_same_v<std::remove_const_t<T>, S>;

template <typename V> void fields(V &visit, Is<MeshAxis> auto &v) {
  visit("name", v.name);
  visit("size", v.size);
}
template <typename V> void fields(V &visit, Is<Factor> auto &v) {
  visit("size", v.size);
  visit("axes", v.axes);
}
template <typename V> void fields(V &visit, Is<Group> auto &v) {
  visit("id", v.id);
  visit("axes", v.axes);
  visit("members", v.members);
}
template <typename V> void fields(V &visit, Is<Frame> auto &v) {
  visit("id", v.id);
  visit("stage", v.stage);
  visit("chunk", v.chunk);
  visit("bytes", v.bytes);
  visit("count", v.count);
  visit("offset", v.offset);
}
template <typename V> void fields(V &visit, Is<Buffer> auto &v) {
  visit("id", v.id);
  visit("name", v.name);
  visit("dtype", v.dtype);
  visit("shape", v.shape);
  visit("stage", v.stage);
  visit("space", v.space);
  visit("frame", v.frame);
  visit("offset", v.offset);
  visit("bytes", v.bytes);
  visit("kind", v.kind);
  visit("view_of", v.viewOf);
}
template <typename V> void fields(V &visit, Is<TensorSource> auto &v) {
  visit("file", v.file);
  visit("offset", v.offset);
  visit("bytes", v.bytes);
  visit("dtype", v.dtype);
}
template <typename V> void fields(V &visit, Is<Tensor> auto &v) {
  visit("name", v.name);
  visit("role", v.role);
  visit("of", v.of);
  visit("slot", v.slot);
  visit("buffer", v.buffer);
  visit("copies", v.copies);
  visit("dtype", v.dtype);
  visit("global_shape", v.globalShape);
  visit("layout", v.layout);
  visit("source", v.source);
  visit("init", v.init);
  visit("seed", v.seed);
  visit("value", v.value);
}
template <typename V> void fields(V &visit, Is<Port> auto &v) {
  visit("name", v.name);
  visit("buffer", v.buffer);
  visit("dtype", v.dtype);
  visit("global_shape", v.globalShape);
  visit("layout", v.layout);
  visit("limit", v.limit);
}
template <typename V> void fields(V &visit, Is<LrSchedule> auto &v) {
  visit("kind", v.kind);
  visit("lr", v.lr);
  visit("warmup", v.warmup);
  visit("total", v.total);
  visit("min", v.min);
}
template <typename V> void fields(V &visit, Is<ScalarInput> auto &v) {
  visit("name", v.name);
  visit("buffer", v.buffer);
  visit("skips", v.skips);
}
template <typename V> void fields(V &visit, Is<ScalarExpr> auto &v) {
  visit("kind", v.kind);
  visit("value", v.value);
  visit("size", v.size);
  visit("axes", v.axes);
}
template <typename V> void fields(V &visit, Is<FrameSlot> auto &v) {
  visit("frame", v.frame);
  visit("slot", v.slot);
}
template <typename V> void fields(V &visit, Is<ScheduleEntry> auto &v) {
  visit("phase", v.phase);
  visit("micro_batch", v.microBatch);
  visit("slots", v.slots);
}

template <typename V> void fields(V &visit, Is<KernelOp> auto &v) {
  visit("symbol", v.symbol);
  visit("buffers", v.buffers);
  visit("writes", v.writes);
  visit("scalars", v.scalars);
}
template <typename V> void fields(V &visit, Is<KernelLaunch> auto &v) {
  visit("blocks", v.blocks);
  visit("threads", v.threads);
  visit("shared_bytes", v.sharedBytes);
}
template <typename V> void fields(V &visit, Is<Fp8Factors> auto &v) {
  visit("a", v.a);
  visit("b", v.b);
  visit("workspace", v.workspace);
}
template <typename V> void fields(V &visit, Is<MatmulOp> auto &v) {
  visit("a", v.a);
  visit("b", v.b);
  visit("c", v.c);
  visit("a_offset", v.aOffset);
  visit("b_offset", v.bOffset);
  visit("c_offset", v.cOffset);
  visit("m", v.m);
  visit("n", v.n);
  visit("k", v.k);
  visit("trans_a", v.transA);
  visit("trans_b", v.transB);
  visit("lda", v.lda);
  visit("ldb", v.ldb);
  visit("ldc", v.ldc);
  visit("batch", v.batch);
  visit("stride_a", v.strideA);
  visit("stride_b", v.strideB);
  visit("stride_c", v.strideC);
  visit("batch2", v.batch2);
  visit("stride2_a", v.stride2A);
  visit("stride2_b", v.stride2B);
  visit("stride2_c", v.stride2C);
  visit("alpha", v.alpha);
  visit("beta", v.beta);
  visit("compute", v.compute);
  visit("epilogue", v.epilogue);
  visit("bias", v.bias);
  visit("aux", v.aux);
  visit("bias_offset", v.biasOffset);
  visit("aux_offset", v.auxOffset);
  visit("aux_ld", v.auxLd);
  visit("fp8", v.fp8);
}
template <typename V> void fields(V &visit, Is<ConvOp> auto &v) {
  visit("kind", v.kind);
  visit("x", v.x);
  visit("w", v.w);
  visit("y", v.y);
  visit("x_shape", v.xShape);
  visit("w_shape", v.wShape);
  visit("y_shape", v.yShape);
  visit("strides", v.strides);
  visit("dilations", v.dilations);
  visit("pads", v.pads);
  visit("compute", v.compute);
}
template <typename V> void fields(V &visit, Is<AttentionShape> auto &v) {
  visit("batch", v.batch);
  visit("heads", v.heads);
  visit("groups", v.groups);
  visit("queries", v.queries);
  visit("keys", v.keys);
  visit("depth", v.depth);
  visit("value_depth", v.valueDepth);
  visit("scale", v.scale);
  visit("causal", v.causal);
  visit("compute", v.compute);
}
template <typename V> void fields(V &visit, Is<AttentionTensor> auto &v) {
  visit("buffer", v.buffer);
  visit("offset", v.offset);
  visit("strides", v.strides);
}
template <typename V> void fields(V &visit, Is<AttentionOp> auto &v) {
  visit("shape", v.shape);
  visit("q", v.q);
  visit("k", v.k);
  visit("v", v.v);
  visit("out", v.out);
  visit("lse", v.lse);
}
template <typename V> void fields(V &visit, Is<AttentionGradOp> auto &v) {
  visit("shape", v.shape);
  visit("q", v.q);
  visit("k", v.k);
  visit("v", v.v);
  visit("out", v.out);
  visit("dout", v.dout);
  visit("lse", v.lse);
  visit("dq", v.dq);
  visit("dk", v.dk);
  visit("dv", v.dv);
  visit("workspace", v.workspace);
}
template <typename V> void fields(V &visit, Is<AllReduceOp> auto &v) {
  visit("group", v.group);
  visit("buffers", v.buffers);
  visit("kind", v.kind);
}
template <typename V> void fields(V &visit, Is<AllGatherOp> auto &v) {
  visit("group", v.group);
  visit("ins", v.ins);
  visit("outs", v.outs);
}
template <typename V> void fields(V &visit, Is<ReduceScatterOp> auto &v) {
  visit("group", v.group);
  visit("ins", v.ins);
  visit("outs", v.outs);
  visit("kind", v.kind);
}
template <typename V> void fields(V &visit, Is<AllToAllOp> auto &v) {
  visit("group", v.group);
  visit("in", v.in);
  visit("out", v.out);
}
template <typename V> void fields(V &visit, Is<BroadcastOp> auto &v) {
  visit("group", v.group);
  visit("buffer", v.buffer);
  visit("root", v.root);
}
template <typename V> void fields(V &visit, Is<SendOp> auto &v) {
  visit("group", v.group);
  visit("buffer", v.buffer);
  visit("shift", v.shift);
  visit("wrap", v.wrap);
  visit("tag", v.tag);
}
template <typename V> void fields(V &visit, Is<RecvOp> auto &v) {
  visit("group", v.group);
  visit("buffer", v.buffer);
  visit("shift", v.shift);
  visit("wrap", v.wrap);
  visit("tag", v.tag);
}
template <typename V> void fields(V &visit, Is<CopyOp> auto &v) {
  visit("in", v.in);
  visit("out", v.out);
  visit("in_offset", v.inOffset);
  visit("out_offset", v.outOffset);
  visit("bytes", v.bytes);
}
template <typename V> void fields(V &visit, Is<TransferOp> auto &v) {
  visit("in", v.in);
  visit("out", v.out);
}
template <typename V> void fields(V &visit, Is<FillOp> auto &v) {
  visit("buffer", v.buffer);
  visit("value", v.value);
}
template <typename V> void fields(V &visit, Is<LoadInputOp> auto &v) {
  visit("input", v.input);
  visit("buffer", v.buffer);
}
template <typename V> void fields(V &visit, Is<StoreOutputOp> auto &v) {
  visit("output", v.output);
}
/// The fields of an instruction without those of its op, which lie beside
/// these.
template <typename V> void fields(V &visit, Is<Instruction> auto &v) {
  visit("queue", v.queue);
  visit("waits", v.waits);
  visit("signals", v.signals);
  visit("name", v.name);
  visit("flops", v.flops);
}

/// The fields of a plan without the version and the checksum.
template <typename V> void fields(V &visit, Is<Plan> auto &v) {
  visit("model", v.model);
  visit("mesh", v.mesh.axes);
  visit("processes", v.processes);
  visit("micro_batches", v.mesh.microBatches);
  visit("batch_shares", v.mesh.batchShares);
  visit("trains", v.trains);
  visit("target_cpu", v.targetCpu);
  visit("cpu_features", v.cpuFeatures);
  visit("target_gpu", v.targetGpu);
  visit("kernel_file", v.kernelFile);
  visit("kernel_hash", v.kernelHash);
  visit("kernel_launches", v.kernelLaunches);
  visit("arena_bytes", v.arenaBytes);
  visit("host_bytes", v.hostBytes);
  visit("disk_bytes", v.diskBytes);
  visit("groups", v.groups);
  visit("frames", v.frames);
  visit("buffers", v.buffers);
  visit("tensors", v.tensors);
  visit("inputs", v.inputs);
  visit("outputs", v.outputs);
  visit("scalars", v.scalars);
  visit("lr_schedule", v.lrSchedule);
  visit("phases", v.phases);
  visit("schedule", v.schedule);
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANFIELDS_H
