#include "runtime/plan/Plan.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

#include <nlohmann/json.hpp>

namespace dpc::rt {
namespace {

using test::addBuffer;
using test::at;
using test::leastSquares;
using test::Mutation;
using test::op;

TEST(Plan, GroupsPartitionTheRanks) {
  Mesh mesh{{{"dp", 2}, {"tp", 3}}, 1};
  EXPECT_EQ(groupMembers(mesh, {"dp"}),
            (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(groupMembers(mesh, {"tp"}),
            (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groupMembers(mesh, {"tp", "dp"}).size(), 1u);
  EXPECT_EQ(groupMembers(mesh, {}).size(), 6u);
}

TEST(Plan, LearningRates) {
  LrSchedule lr{LrKind::Cosine, 1.0, 10, 110};
  EXPECT_EQ(learningRate(lr, 1), 0);
  EXPECT_EQ(learningRate(lr, 6), 0.5);
  EXPECT_EQ(learningRate(lr, 11), 1);
  EXPECT_NEAR(learningRate(lr, 61), 0.5, 1e-12);
  EXPECT_NEAR(learningRate(lr, 500), 0, 1e-12);
  EXPECT_NEAR(learningRate({LrKind::Linear, 1.0, 0, 10}, 6), 0.5, 1e-12);
  EXPECT_EQ(learningRate({LrKind::Constant, 0.3, 0, 0}, 99), 0.3);
  lr.min = 0.1;
  EXPECT_EQ(learningRate(lr, 6), 0.5) << "warm-up starts from 0";
  EXPECT_NEAR(learningRate(lr, 61), 0.55, 1e-12);
  EXPECT_NEAR(learningRate(lr, 500), 0.1, 1e-12);
  EXPECT_NEAR(learningRate({LrKind::Linear, 1.0, 0, 10, 0.2}, 6), 0.6, 1e-12);
}

TEST(Plan, ScalarsFollowTheLayoutFormula) {
  Mesh mesh{{{"dp", 2}, {"tp", 3}}, 2};
  ScalarExpr expr{ScalarKind::Offset, 0, 10, {"dp", "tp"}};
  EXPECT_EQ(evaluate(expr, mesh, 5, 0), 9);
  expr.kind = ScalarKind::Valid;
  EXPECT_EQ(evaluate(expr, mesh, 5, 0), 1);
  EXPECT_EQ(evaluate({ScalarKind::Coord, 0, 0, {"tp", "mb"}}, mesh, 5, 1), 5);
  EXPECT_EQ(evaluate({ScalarKind::Const, 7, 0, {}}, mesh, 5, 1), 7);
}

/// A plan with every instruction and every optional field.
Plan everything() {
  Plan plan = leastSquares(2, 2);
  plan.kernelFile = "kernels.so";
  plan.kernelHash = "0123456789abcdef";
  plan.cpuFeatures = {"avx2"};
  plan.processes = {1, 0};
  plan.lossOutput = "total";
  plan.inputs[0].limit = 7;
  plan.inputs[0].ignored = -100;
  plan.inputs[0].first = -3;
  plan.inputs[0].use = InputUse::ShiftedLabels;
  plan.unreadWeights = {"head.bias"};
  plan.tensors[0].aliases = {"head.weight"};
  plan.tensors[1].isUnsaved = true;
  plan.tensors[0].source = TensorSource{"w.bin", 64, 32, DType::F32};
  plan.sourceFiles = {{"w.bin", 96, "fedcba9876543210"}};
  int state = addBuffer(plan, "w.m", BufferKind::Optimizer, {4, 2});
  plan.tensors.push_back({"w.exp_avg",
                          TensorRole::State,
                          "w",
                          "exp_avg",
                          state,
                          {},
                          DType::F32,
                          {4, 2},
                          Layout::replicated({4, 2}),
                          {},
                          InitKind::Zeros});
  int in = addBuffer(plan, "in", BufferKind::Communication, {4});
  int out = addBuffer(plan, "out", BufferKind::Communication, {8});
  int same = addBuffer(plan, "same", BufferKind::Communication, {4});
  auto comm = [&](OpVariant op) {
    plan.phases["update"].push_back(
        {Queue::Comm, {}, -1, "", 0, std::move(op)});
  };
  comm(FillOp{in, -std::numeric_limits<double>::infinity()});
  comm(AllGatherOp{0, {in}, {out}});
  comm(ReduceScatterOp{0, {out}, {in}, ReduceKind::Max});
  comm(AllToAllOp{0, in, same});
  comm(BroadcastOp{0, same, 1});
  comm(SendOp{0, same, 1, true, 5});
  comm(RecvOp{0, in, -1, true, 5});
  comm(CopyOp{in, same, 0, 0, 16});
  plan.phases["backward"].push_back(
      {Queue::Compute,
       {},
       1,
       "k",
       12.5,
       KernelOp{"k0", {5, 5}, {1}, {{ScalarKind::Valid, 0, 8, {"dp"}}}}});
  // Only the kernel signals event 1.
  plan.phases["backward"][0].signals = -1;
  plan.phases["update"].push_back(
      {Queue::Compute, {}, -1, "s", 0, StoreOutputOp{0}});
  // The step stores the loss after the all_reduce in the comm queue.
  plan.phases["update"][1].signals = 3;
  plan.phases["update"].back().waits = {3};
  return plan;
}

Plan everythingOnGpus() {
  Plan plan = everything();
  plan.targetGpu = "sm_90";
  plan.kernelFile = "kernels.ptx";
  plan.kernelLaunches["k0"] = {12, 256, 64};
  return plan;
}

Plan withEpilogues() {
  Plan plan = leastSquares(2, 1);
  test::addEpilogues(plan);
  return plan;
}

Plan withFp8() {
  Plan plan = leastSquares(2, 1);
  test::addFp8(plan);
  return plan;
}

TEST(PlanJson, RoundTripsEverything) {
  for (const Plan &plan :
       {everything(), everythingOnGpus(), withEpilogues(), withFp8()})
    test::expectRoundTrip(plan);
}

// If the format has changed, run with DPC_WRITE_FIXTURES=1 to rewrite the file.
TEST(PlanJson, TheFixtureIsUpToDate) {
  const std::string dir = DPC_FIXTURES "/plans/least-squares";
  if (std::getenv("DPC_WRITE_FIXTURES"))
    ASSERT_TRUE(writePlan(leastSquares(2, 2), dir).ok());
  std::ifstream in(dir + "/plan.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, planToJson(leastSquares(2, 2)));
  EXPECT_TRUE(readPlan(dir).ok());
}

std::string readError(const std::string &text) {
  Expected<Plan> plan = planFromJson(text, "plan.json");
  return plan ? "accepted" : plan.status().message();
}

std::string replaced(std::string text, const std::string &from,
                     const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanJson, RefusesOtherVersions) {
  Plan plan = leastSquares(2, 1);
  plan.version = kPlanVersion + 1;
  EXPECT_EQ(readError(planToJson(plan)),
            concat("plan.json: plan version ", kPlanVersion + 1,
                   " is not supported, this build reads ", kPlanVersion,
                   "; compile again with this build's dpc-opt"));
}

TEST(PlanJson, RefusesAChangedNumber) {
  std::string text = planToJson(leastSquares(2, 1));
  std::string error =
      readError(replaced(text, "\"offset\":64", "\"offset\":0"));
  EXPECT_HAS(error, "checksum");
}

TEST(PlanJson, ErrorsAreOneLineWhateverNamesHold) {
  auto body = nlohmann::ordered_json::parse(planToJson(leastSquares(2, 1)));
  body.erase("checksum");
  body["phases"]["forward"][0]["op"] = "a\nb";
  body["checksum"] = hashText(body.dump());
  EXPECT_EQ(readError(body.dump()),
            "plan.json: phases.forward[0]: instruction \"a b\" is not known to "
            "this build");
}

TEST(PlanJson, RefusesBrokenText) {
  std::string text = planToJson(leastSquares(2, 1));
  EXPECT_HAS(readError(text.substr(0, text.size() / 2)), "not JSON");
  EXPECT_HAS(readError("[1]"), "not a plan");
  EXPECT_HAS(readError("{}"), "version");
}

//===----------------------------------------------------------------------===//
// Each mutation makes a valid plan invalid. The error names the field.
//===----------------------------------------------------------------------===//

const Mutation kHeaderMutations[] = {
    {"meshName", [](Plan &p) { p.mesh.axes[0].name = "mb"; }, "\"mb\""},
    {"meshSize", [](Plan &p) { p.mesh.axes[0].size = 0; }, "size 0"},
    {"meshHuge", [](Plan &p) { p.mesh.axes[0].size = 1 << 30; }, "dp"},
    {"meshTwice", [](Plan &p) { p.mesh.axes.push_back({"dp", 1}); }, "twice"},
    {"meshOther", [](Plan &p) { p.mesh.axes[0].size = 3; }, "groups[0]"},
    {"microBatches", [](Plan &p) { p.mesh.microBatches = 0; },
     "micro_batches is 0"},
    {"sharesOfOthers", [](Plan &p) { p.mesh.batchShares = {2, 1, 1}; },
     "batch_shares has 3 numbers, the mesh has 2"},
    {"sharesSum", [](Plan &p) { p.mesh.batchShares = {3, 2}; },
     "batch_shares add up to 5"},
    {"noShare", [](Plan &p) { p.mesh.batchShares = {4, 0}; },
     "batch_shares has 0"},
    {"shareNotDone", [](Plan &p) { p.mesh.batchShares = {3, 1}; },
     "schedule[0] has 2 micro-batches up to 1, the rank's share"},
    {"kernelFile", [](Plan &p) { p.kernelFile = "../k.so"; }, "kernel_file"},
    {"noKernelFile", [](Plan &p) { p.kernelFile = ""; },
     "backward[1] (kernel): symbol is \"k0\""},
    {"kernelHash", [](Plan &p) { p.kernelHash = "12"; }, "kernel_hash"},
    {"lr", [](Plan &p) { p.lrSchedule.lr = -1; }, "lr_schedule.lr"},
    {"warmup", [](Plan &p) { p.lrSchedule.warmup = -1; }, "warmup is -1"},
    {"total", [](Plan &p) { p.lrSchedule.kind = LrKind::Linear; },
     "lr_schedule.total is 0"},
    {"minLr", [](Plan &p) { p.lrSchedule.min = 2; }, "lr_schedule.min is 2"},
    {"groupId", [](Plan &p) { p.groups[0].id = 1; }, "groups[0]: id is 1"},
    {"groupAxis", [](Plan &p) { p.groups[0].axes = {"tp"}; }, "\"tp\""},
    {"groupMembers", [](Plan &p) { p.groups[0].members = {{0}, {1}}; },
     "groups[0]: members"},
    {"processTwice", [](Plan &p) { p.processes = {0, 0}; },
     "processes: expected the numbers 0 to 1, once each"},
    {"processMissing", [](Plan &p) { p.processes = {0}; }, "processes"},
    {"arena", [](Plan &p) { p.arenaBytes[0] -= 64; }, "arena_bytes"},
    {"bufferId", [](Plan &p) { p.buffers[2].id = 3; }, "buffers[2]"},
    {"bufferBytes", [](Plan &p) { p.buffers[3].bytes += 4; },
     "buffers[3] \"x\": bytes is 36"},
    {"bufferShape", [](Plan &p) { p.buffers[3].shape[0] = -1; }, "shape"},
    {"bufferShapeHuge",
     [](Plan &p) { p.buffers[3].shape = {int64_t(1) << 40, 1 << 30}; },
     "too many elements"},
    {"bufferDType", [](Plan &p) { p.buffers[3].dtype = DType::F64; },
     "buffers[3]"},
    {"bufferOffset", [](Plan &p) { p.buffers[3].offset += 4; },
     "multiple of 64"},
    {"bufferNegative", [](Plan &p) { p.buffers[3].offset = -64; },
     "offset is -64"},
    {"bufferPastEnd", [](Plan &p) { p.buffers[3].offset = 1 << 20; }, "arena"},
    {"viewOf", [](Plan &p) { p.buffers[4].viewOf = 99; }, "view_of is 99"},
    {"viewOutside", [](Plan &p) { p.buffers[4].viewOf = 0; },
     "outside buffer 0"},
    {"persistentOverlap", [](Plan &p) { p.buffers[3].offset = 64; },
     "persists, but shares bytes"},
    {"tensorName", [](Plan &p) { p.tensors[1].name = "w"; }, "used twice"},
    {"tensorBuffer", [](Plan &p) { p.tensors[0].buffer = 77; },
     "tensors[0] \"w\": buffer is 77"},
    {"tensorDType", [](Plan &p) { p.tensors[0].dtype = DType::BF16; },
     "dtype is bf16"},
    {"tensorShape", [](Plan &p) { p.tensors[0].globalShape = {5, 2}; },
     "multiply to 4, not 5"},
    {"tensorLayout",
     [](Plan &p) { p.tensors[0].layout.dims[0][0].axes = {"dp"}; },
     "layout gives shards f32[2, 2]"},
    {"tensorMb", [](Plan &p) { p.tensors[0].layout.dims[0][0].axes = {"mb"}; },
     "tensors[0]"},
    {"tensorRole", [](Plan &p) { p.tensors[0].role = TensorRole::State; },
     "kind optimizer"},
    {"tensorOf", [](Plan &p) { p.tensors[2].of = "v"; }, "of is \"v\""},
    {"tensorSlot", [](Plan &p) { p.tensors[2].slot = ""; }, "slot is empty"},
    {"skipsNothing", [](Plan &p) { p.scalars[0].skips = 99; }, "skips is 99"},
    {"skipsParameter", [](Plan &p) { p.scalars[0].skips = 0; },
     "not one f32 of kind optimizer"},
    {"tensorShared",
     [](Plan &p) {
       p.tensors[1] = p.tensors[0];
       p.tensors[1].name = "v";
     },
     "holds another tensor"},
    {"sourceBytes", [](Plan &p) { p.tensors[0].source->bytes = 31; },
     "source.bytes is 31"},
    {"sourceOffset", [](Plan &p) { p.tensors[0].source->offset = -1; },
     "source.offset is -1"},
    {"sourceDType", [](Plan &p) { p.tensors[0].source->dtype = DType::F64; },
     "source.bytes"},
    {"sourceFile", [](Plan &p) { p.tensors[0].source->file = ""; },
     "source.file"},
    {"noSourceFile", [](Plan &p) { p.sourceFiles.clear(); },
     "source_files has no entry for \"w.bin\""},
    {"otherSourceFile", [](Plan &p) { p.tensors[0].source.reset(); },
     "source_files[0] \"w.bin\": no tensor has its values in this file"},
    {"sourceFileTwice",
     [](Plan &p) { p.sourceFiles.resize(2, p.sourceFiles[0]); },
     "source_files[1] \"w.bin\": listed twice"},
    {"sourceFileBytes", [](Plan &p) { p.sourceFiles[0].bytes = -1; },
     "source_files[0] \"w.bin\": bytes is -1"},
    {"sourceFileHash",
     [](Plan &p) { p.sourceFiles[0].hash = "FEDCBA9876543210"; },
     "hash is \"FEDCBA9876543210\", expected 16 hexadecimal digits"},
    {"sourceFileHashShort", [](Plan &p) { p.sourceFiles[0].hash = ""; },
     "hash is \"\", expected 16 hexadecimal digits"},
    {"inputBuffer", [](Plan &p) { p.inputs[0].buffer = -1; }, "inputs[0]"},
    {"inputShape", [](Plan &p) { p.inputs[0].globalShape[0] = 9; },
     "inputs[0] \"x\""},
    {"inputLimit", [](Plan &p) { p.inputs[0].limit = -9; }, "limit is -9"},
    {"inputFirst", [](Plan &p) { p.inputs[0].first = 8; },
     "limit is 7, below first, 8"},
    {"inputIgnored",
     [](Plan &p) {
       p.inputs[0].limit = p.inputs[0].first;
       p.inputs[0].ignored = -100;
     },
     "ignored is -100, but there is no limit"},
    {"outputLayout", [](Plan &p) { p.outputs[0].buffer = 3; }, "outputs[0]"},
    {"outputBatchDim", [](Plan &p) { p.outputs[0].batchDim = 9; },
     "batch_dim is 9, but there are"},
    {"scalarName", [](Plan &p) { p.scalars[0].name = "beta"; },
     "expected lr or step"},
    {"scalarBuffer", [](Plan &p) { p.scalars[0].buffer = 3; }, "buffer 3"},
};
DPC_TEST_MUTATIONS(HeaderMutation, everything(), "", kHeaderMutations);

void onGpu(Plan &p, KernelLaunch launch) {
  p.targetGpu = "sm_80";
  p.kernelFile = "kernels.ptx";
  p.kernelLaunches["k0"] = launch;
}
const Mutation kLaunchMutations[] = {
    {"target", [](Plan &p) { onGpu(p, {}), p.targetGpu = "hopper"; },
     "target_gpu is \"hopper\""},
    {"targetTooOld", [](Plan &p) { onGpu(p, {}), p.targetGpu = "sm_75"; },
     "expected sm_80 or later"},
    {"fileOfCpus", [](Plan &p) { onGpu(p, {}), p.kernelFile = "kernels.so"; },
     "kernel_file is \"kernels.so\", expected a .ptx file"},
    {"launchOfCpus", [](Plan &p) { p.kernelLaunches["k0"] = {}; },
     "kernel_launches is not empty"},
    {"noLaunch", [](Plan &p) { onGpu(p, {}), p.kernelLaunches.clear(); },
     "backward[1] (kernel): symbol k0 has no entry in kernel_launches"},
    {"blocks", [](Plan &p) { onGpu(p, {0, 32, 0}); },
     "kernel_launches.k0: blocks is 0, expected 1 to 2147483647"},
    {"threads", [](Plan &p) { onGpu(p, {1, 1025, 0}); },
     "threads is 1025, expected 1 to 1024"},
    {"shared", [](Plan &p) { onGpu(p, {1, 32, 170000}); },
     "shared_bytes is 170000, expected 0 to 166912"},
};
DPC_TEST_MUTATIONS(LaunchMutation, everything(), "", kLaunchMutations);

const Mutation kInstructionMutations[] = {
    {"phaseName", [](Plan &p) { p.phases["warm"] = {}; }, "\"warm\""},
    {"flops", [](Plan &p) { at(p, "forward", 1).flops = -1; },
     "forward[1] (matmul): flops"},
    {"queue", [](Plan &p) { at(p, "update", 0).queue = Queue::Compute; },
     "update[0] (all_reduce): queue"},
    {"queueComm", [](Plan &p) { at(p, "forward", 1).queue = Queue::Comm; },
     "forward[1] (matmul): queue"},
    {"symbol", [](Plan &p) { op<KernelOp>(p, "backward", 1).symbol = "a b"; },
     "\"a b\""},
    {"kernelBuffer",
     [](Plan &p) { op<KernelOp>(p, "backward", 1).buffers[0] = 50; },
     "buffers is 50, expected a buffer below"},
    {"kernelWrites",
     [](Plan &p) { op<KernelOp>(p, "backward", 1).writes = {2}; },
     "writes is 2"},
    {"kernelAxis",
     [](Plan &p) { op<KernelOp>(p, "backward", 1).scalars[0].axes = {"q"}; },
     "\"q\""},
    {"kernelSize",
     [](Plan &p) { op<KernelOp>(p, "backward", 1).scalars[0].size = -2; },
     "size is -2"},
    {"matmulA", [](Plan &p) { op<MatmulOp>(p, "forward", 1).a = -1; },
     "a is -1, expected a buffer below"},
    {"matmulM", [](Plan &p) { op<MatmulOp>(p, "forward", 1).m = 3; },
     "a reaches element 11"},
    {"matmulK", [](Plan &p) { op<MatmulOp>(p, "forward", 1).k = 5; },
     "lda is 4"},
    {"matmulN", [](Plan &p) { op<MatmulOp>(p, "forward", 1).n = -2; },
     "n is -2"},
    {"matmulLdb", [](Plan &p) { op<MatmulOp>(p, "forward", 1).ldb = 1; },
     "ldb is 1"},
    {"matmulOffset", [](Plan &p) { op<MatmulOp>(p, "forward", 1).cOffset = 1; },
     "c reaches element"},
    {"matmulStride",
     [](Plan &p) { op<MatmulOp>(p, "forward", 1).strideA = -1; }, "negative"},
    {"matmulBatch",
     [](Plan &p) {
       op<MatmulOp>(p, "forward", 1).batch2 = int64_t(1) << 62;
       op<MatmulOp>(p, "forward", 1).stride2A = int64_t(1) << 62;
     },
     "a reaches element 2^63"},
    {"matmulCompute",
     [](Plan &p) { op<MatmulOp>(p, "forward", 1).compute = DType::F64; },
     "compute is f64"},
    {"matmulAlpha",
     [](Plan &p) { op<MatmulOp>(p, "forward", 1).alpha = INFINITY; }, "alpha"},
    {"matmulCOverA",
     [](Plan &p) {
       auto &product = op<MatmulOp>(p, "update", 2);
       product.c = product.b;
     },
     "update[2] (matmul): b overlaps c, which is written"},
    {"matmulCInA",
     [](Plan &p) {
       auto &product = op<MatmulOp>(p, "update", 2);
       product.c = product.a;
       product.cOffset = 7;
     },
     "update[2] (matmul): a overlaps c, which is written"},
    {"reduceTwice",
     [](Plan &p) {
       auto &buffers = op<AllReduceOp>(p, "update", 0).buffers;
       buffers.push_back(buffers.front());
     },
     "update[0] (all_reduce): buffers lists 5 and 5, which share bytes"},
    {"reduceViews",
     [](Plan &p) {
       int view = addBuffer(p, "view", BufferKind::Gradient, {2, 2});
       p.buffers[view].viewOf = 5;
       p.buffers[view].offset = p.buffers[5].offset + 16;
       op<AllReduceOp>(p, "update", 0).buffers.push_back(view);
     },
     "update[0] (all_reduce): buffers lists 5 and 11, which share bytes"},
    {"reduceGroup", [](Plan &p) { op<AllReduceOp>(p, "update", 0).group = 1; },
     "group is 1"},
    {"reduceBuffers",
     [](Plan &p) { op<AllReduceOp>(p, "update", 0).buffers = {}; }, "empty"},
    {"gatherOut",
     [](Plan &p) {
       auto &gather = op<AllGatherOp>(p, "update", 4);
       gather.outs = gather.ins;
     },
     "does not fit a group of 2"},
    {"gatherPairs",
     [](Plan &p) {
       auto &gather = op<AllGatherOp>(p, "update", 4);
       gather.outs.push_back(gather.outs[0]);
     },
     "ins has 1 and outs 2 buffers"},
    {"scatterNone",
     [](Plan &p) {
       auto &scatter = op<ReduceScatterOp>(p, "update", 5);
       scatter.ins = scatter.outs = {};
     },
     "ins has 0 and outs 0 buffers"},
    {"scatterIn",
     [](Plan &p) {
       auto &scatter = op<ReduceScatterOp>(p, "update", 5);
       std::swap(scatter.ins, scatter.outs);
     },
     "does not fit a group of 2"},
    {"root", [](Plan &p) { op<BroadcastOp>(p, "update", 7).root = 2; },
     "root is 2"},
    {"shift", [](Plan &p) { op<SendOp>(p, "update", 8).shift = 2; },
     "shift is 2"},
    {"sendLost", [](Plan &p) { op<SendOp>(p, "update", 8).wrap = false; },
     "would wait forever"},
    {"recvLost", [](Plan &p) { op<RecvOp>(p, "update", 9).wrap = false; },
     "never received"},
    {"copyBytes", [](Plan &p) { op<CopyOp>(p, "update", 10).bytes = 20; },
     "outside buffer"},
    {"copyOffset", [](Plan &p) { op<CopyOp>(p, "update", 10).inOffset = -4; },
     "in_offset is -4"},
    {"copySelf",
     [](Plan &p) {
       auto &copy = op<CopyOp>(p, "update", 10);
       copy.out = copy.in;
     },
     "overlap"},
    {"fillBuffer", [](Plan &p) { op<FillOp>(p, "setup", 0).buffer = 1000; },
     "setup[0] (fill): buffer is 1000"},
    {"loadInput", [](Plan &p) { op<LoadInputOp>(p, "forward", 0).input = 1; },
     "input is 1"},
    {"storeOutput",
     [](Plan &p) { op<StoreOutputOp>(p, "update", 11).output = 1; },
     "output is 1"},
    {"scheduleRanks", [](Plan &p) { p.schedule.pop_back(); },
     "schedule has 1 lists"},
    {"schedulePhase", [](Plan &p) { p.schedule[0][1].phase = "fwd"; },
     "schedule[0][1]: phase is \"fwd\""},
    {"scheduleMb", [](Plan &p) { p.schedule[1][1].microBatch = 2; },
     "schedule[1][1]: micro_batch is 2"},
    {"event", [](Plan &p) { at(p, "update", 0).waits = {17}; }, "event 17"},
    {"eventTwice", [](Plan &p) { at(p, "update", 0).signals = 0; },
     "another instruction signals"},
};
DPC_TEST_MUTATIONS(InstructionMutation, everything(), "",
                   kInstructionMutations);

const Mutation kFlowMutations[] = {
    {"neverWritten",
     [](Plan &p) { p.phases["setup"].erase(p.phases["setup"].begin()); },
     "reads buffer 5 \"w.grad\", which was not written before"},
    {"bytesTaken", [](Plan &p) { p.buffers[3].offset = p.buffers[6].offset; },
     "whose bytes another buffer has overwritten"},
    {"noWaitBeforeReduce", [](Plan &p) { at(p, "update", 0).waits = {}; },
     "update[0] (all_reduce): touches buffer 5"},
    {"noWaitAfterReduce", [](Plan &p) { at(p, "update", 2).waits = {}; },
     "no event orders them"},
    {"orderDiffers",
     [](Plan &p) {
       p.schedule[1].push_back({"backward", 1, {}});
       p.schedule[1].push_back({"update", 0, {}});
     },
     "rank 1 would wait forever"},
    {"outputTaken",
     [](Plan &p) {
       p.phases["update"].pop_back();
       p.phases["update"].push_back(
           {Queue::Compute, {3}, -1, "", 0, FillOp{0, 0}});
       p.outputs[0].buffer = 2;
       p.buffers[2].kind = BufferKind::Output;
       p.scalars.clear();
     },
     "outputs[0] \"loss\": buffer 2 does not hold the output"},
};
DPC_TEST_MUTATIONS(FlowMutation, everything(), "", kFlowMutations);

} // namespace
} // namespace dpc::rt
