//===- PlanStagesTest.cpp - plans with several pipeline stages ------------===//
#include "runtime/plan/Ledger.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::at;
using test::Mutation;
using test::op;
using test::twoStages;

TEST(PlanJson, RoundTripsStages) { test::expectRoundTrip(twoStages(2, 2)); }

TEST(Plan, PhaseNames) {
  Mesh one{{{"dp", 2}}, 1}, two{{{"pp", 4}}, 1};
  EXPECT_EQ((PhaseName{0, PhaseKind::Weight, 0}.text(one)), "weight");
  EXPECT_EQ((PhaseName{2, PhaseKind::Backward, 1}.text(two)), "s2.backward.1");
  auto name = PhaseName::parse("s2.backward.1", two);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stage, 2);
  EXPECT_EQ(name->kind, PhaseKind::Backward);
  EXPECT_EQ(name->chunk, 1);
  EXPECT_TRUE(PhaseName::parse("forward.3", one));
  for (const char *text : {"", "s2", "s2.", "s4.forward", "s1.forward.0",
                           "s1.forward.01", "s1.update.1", "forward", "s.setup",
                           "s1.forward.1.1", "s-1.forward", "s1.Forward"})
    EXPECT_FALSE(PhaseName::parse(text, two)) << text;
  for (const char *text : {"s0.forward", "forward.0", "setup.1", "forward."})
    EXPECT_FALSE(PhaseName::parse(text, one)) << text;
}

TEST(Ledger, NumbersTheCommunicationOfARank) {
  Plan plan = twoStages(2, 2);
  EXPECT_EQ(
      ledgerText(plan, 3),
      "# two-stages: what rank 3 of 4 communicates in a step, in this order\n"
      "0 s1.forward[0] micro_batch=0 recv group=0(pp) from=1 tag=1 bytes=24 "
      "buffers=9 \"recv y\"\n"
      "1 s1.forward[0] micro_batch=1 recv group=0(pp) from=1 tag=1 bytes=24 "
      "buffers=9 \"recv y\"\n"
      "2 s1.backward[2] micro_batch=0 send group=0(pp) to=1 tag=2 bytes=24 "
      "buffers=11 \"send dy\"\n"
      "3 s1.backward[2] micro_batch=1 send group=0(pp) to=1 tag=2 bytes=24 "
      "buffers=11 \"send dy\"\n"
      "4 s1.update[0] micro_batch=0 all_reduce group=1(dp) ranks=2,3 "
      "reduction=sum bytes=24 buffers=8 \"reduce b\"\n"
      "5 s1.update[1] micro_batch=0 all_reduce group=1(dp) ranks=2,3 "
      "reduction=sum bytes=4 buffers=12 \"reduce loss\"\n");
}

/// A line lists at most a few ranks.
TEST(Ledger, ShortensLongLists) {
  Plan plan = test::leastSquares(16, 1, 32);
  std::string text = ledgerText(plan, 3);
  EXPECT_HAS(text, "all_reduce group=0(dp) ranks=0..15 stride=1 count=16 "
                   "reduction=sum");
  plan.mesh.axes = {{"a", 4}, {"b", 2}, {"c", 4}};
  plan.groups = {{0, {"a", "c"}, groupMembers(plan.mesh, {"a", "c"})}};
  plan.schedule.assign(32, plan.schedule.front());
  text = ledgerText(plan, 5);
  EXPECT_HAS(text, "in this order\n# group 0: ranks=4,5,6,7,12,13,14,15,20,"
                   "21,22,23,28,29,30,31\n0 ");
  EXPECT_HAS(text, "ranks=above count=16 reduction=sum");
}

TEST(Ledger, SkipsMessagesWithoutAPeer) {
  Plan plan = twoStages(1, 1);
  plan.phases["s1.update"].push_back(
      {Queue::Comm, {}, -1, "", 0, SendOp{0, 8, 1, false, 4}});
  EXPECT_EQ(ledgerText(plan, 1).find("tag=4"), std::string::npos);
}

/// Replaces the GEMM of y and b on stage 1 by a convolution.
void conv(Plan &p) {
  MatmulOp product = op<MatmulOp>(p, "s1.forward", 1);
  ConvOp conv;
  conv.x = product.a;
  conv.w = product.b;
  conv.y = product.c;
  conv.xShape = {product.m, 1, 3};
  conv.wShape = {2, 1, 3};
  conv.yShape = {product.m, 2, 1};
  conv.strides = conv.dilations = {1};
  conv.pads = {0, 0};
  at(p, "s1.forward", 1).op = conv;
}

/// Buffers with equal offsets in a frame and in the arena do not overlap.
TEST(PlanStages, ConvolutionInAFrame) {
  Plan plan = twoStages(2, 2);
  conv(plan);
  std::swap(plan.buffers[9].offset, plan.buffers[10].offset);
  ASSERT_EQ(plan.buffers[10].offset, plan.buffers[6].offset);
  EXPECT_EQ(validatePlan(plan, "p").message(), "");
}

/// Reading a value of a different micro-batch is an error even in a view.
TEST(PlanStages, PartOfABufferOfAnotherMicroBatch) {
  Plan plan = twoStages(1, 2);
  int part[2];
  int whole = test::addBuffer(plan, "whole", BufferKind::Workspace, {32},
                              DType::F32, 1);
  for (int i : {0, 1}) {
    part[i] = test::addBuffer(plan, "part", BufferKind::Workspace, {16},
                              DType::F32, 1);
    plan.buffers[part[i]].viewOf = whole;
    plan.buffers[part[i]].offset = plan.buffers[whole].offset + 64 * i;
  }
  auto fill = [&](const char *phase, int buffer) {
    plan.phases[phase].push_back(
        {Queue::Compute, {}, -1, "", 0, FillOp{buffer, 0}});
  };
  auto copy = [&](int in, int out) {
    plan.phases["s1.backward"].push_back(
        {Queue::Compute, {}, -1, "", 0, CopyOp{in, out, 0, 0, 64}});
  };
  fill("s1.forward", part[0]);
  fill("s1.backward", part[1]);
  copy(part[1], part[0]);
  EXPECT_EQ(validatePlan(plan, "p").message(), "");
  plan.phases["s1.backward"].pop_back();
  copy(part[0], part[1]);
  std::string error = validatePlan(plan, "p").message();
  EXPECT_HAS(error, "reads buffer 14 \"part\" of micro-batch 0, but "
                    "micro-batch 1 wrote it since");
}

/// A phase of the loop may read a sum over micro-batches when it is complete.
TEST(PlanStages, ASumThatTheLoopReadsIsComplete) {
  Plan plan = twoStages(1, 2);
  MatmulOp product = op<MatmulOp>(plan, "s1.backward", 0);
  auto add = [&](const char *name) {
    return test::addBuffer(plan, name, BufferKind::Workspace, {3, 2},
                           DType::F32, 1);
  };
  int sum = product.c = add("sum"), total = add("total");
  ASSERT_EQ(product.beta, 1);
  plan.phases["s1.setup"].push_back(
      {Queue::Compute, {}, -1, "", 0, FillOp{sum, 0}});
  plan.phases["s1.backward"].push_back(
      {Queue::Compute, {}, -1, "", 0, product});
  plan.phases["s1.weight"] = {
      {Queue::Compute, {}, -1, "", 0, CopyOp{sum, total, 0, 0, 24}}};
  std::vector<ScheduleEntry> &schedule = plan.schedule[1];
  ASSERT_EQ(schedule.size(), 6u); // setup, 2 forward, 2 backward, update
  for (int64_t mb : {1, 0})
    schedule.insert(schedule.begin() + 5, {"s1.weight", mb, {}});
  EXPECT_EQ(validatePlan(plan, "p").message(), "");
  // The backward phases add to it after the first read.
  std::rotate(schedule.begin() + 3, schedule.begin() + 5, schedule.begin() + 7);
  EXPECT_HAS(validatePlan(plan, "p").message(),
             "after the loop over micro-batches has read the sum");
}

/// The reads of one view of a buffer say nothing about another view.
TEST(PlanStages, ASumIsReadByItsOwnBytes) {
  for (bool readsSum : {true, false}) {
    Plan plan = twoStages(1, 2);
    MatmulOp product = op<MatmulOp>(plan, "s1.backward", 0);
    auto add = [&](const char *name, std::vector<int64_t> shape) {
      return test::addBuffer(plan, name, BufferKind::Workspace, shape,
                             DType::F32, 1);
    };
    int whole = add("whole", {32}), total = add("total", {3, 2});
    int sum = product.c = add("sum", {3, 2}), other = add("other", {3, 2});
    for (int view : {sum, other}) {
      plan.buffers[view].viewOf = whole;
      plan.buffers[view].offset =
          plan.buffers[whole].offset + (view == other ? 64 : 0);
    }
    plan.phases["s1.setup"].push_back(
        {Queue::Compute, {}, -1, "", 0, FillOp{whole, 0}});
    plan.phases["s1.backward"].push_back(
        {Queue::Compute, {}, -1, "", 0, product});
    plan.phases["s1.weight"] = {
        {Queue::Compute,
         {},
         -1,
         "",
         0,
         CopyOp{readsSum ? sum : other, total, 0, 0, 24}}};
    if (readsSum) // a write of `other` does not undo the read of `sum`
      plan.phases["s1.weight"].push_back(
          {Queue::Compute, {}, -1, "", 0, FillOp{other, 0}});
    std::vector<ScheduleEntry> &schedule = plan.schedule[1];
    for (int64_t mb : {1, 0}) // before the backward phases
      schedule.insert(schedule.begin() + 3, {"s1.weight", mb, {}});
    std::string error = validatePlan(plan, "p").message();
    if (readsSum)
      EXPECT_HAS(error, "after the loop over micro-batches has read the sum");
    else
      EXPECT_EQ(error, "");
  }
}

const Mutation kStageMutations[] = {
    {"arenas", [](Plan &p) { p.arenaBytes.pop_back(); },
     "arena_bytes has 1 numbers, the mesh has 2 stages"},
    {"arenaSmall", [](Plan &p) { p.arenaBytes[1] -= 64; }, "arena_bytes"},
    {"frameId", [](Plan &p) { p.frames[1].id = 0; }, "frames[1]: id is 0"},
    {"frameStage", [](Plan &p) { p.frames[1].stage = 2; },
     "frames[1]: stage is 2"},
    {"frameTwice",
     [](Plan &p) {
       p.frames.push_back(p.frames[1]);
       p.frames.back().id = 2;
     },
     "frames[2]: stage 1 has a frame of chunk 0 already"},
    {"frameOverlap",
     [](Plan &p) {
       p.frames.push_back(p.frames[1]);
       p.frames.back().id = 2;
       p.frames.back().chunk = 1;
     },
     "frames[2]: shares bytes with frame 1"},
    {"frameChunk", [](Plan &p) { p.frames[0].chunk = -1; }, "chunk is -1"},
    {"frameBytes", [](Plan &p) { p.frames[0].bytes += 4; }, "multiples of 64"},
    {"frameCount", [](Plan &p) { p.frames[0].count = 3; }, "count is 3"},
    {"frameNone", [](Plan &p) { p.frames[0].count = 0; }, "count is 0"},
    {"bufferStage", [](Plan &p) { p.buffers[0].stage = 2; }, "stage is 2"},
    {"bufferFrame", [](Plan &p) { p.buffers[3].frame = 1; },
     "frame is 1, expected a frame of stage 0"},
    {"bufferInFrame", [](Plan &p) { p.buffers[3].offset = 4096; },
     "passes the frame's end"},
    {"persistentInFrame",
     [](Plan &p) {
       p.buffers[0].frame = 0;
       p.buffers[0].offset = 0;
     },
     "but the buffer persists"},
    {"copyStage", [](Plan &p) { p.tensors[1].copies = {1}; },
     "copies: stage 0 has the value already"},
    {"copyShape", [](Plan &p) { p.tensors[0].copies = {6}; },
     "copies: layout gives shards"},
    {"layoutOverStages",
     [](Plan &p) { p.tensors[0].layout.dims[0][0].axes = {"pp"}; },
     "layout mentions pp"},
    {"phaseWithoutStage", [](Plan &p) { p.phases["forward"] = {}; },
     "\"forward\" is not the name of a phase, expected sSTAGE. followed by"},
    {"otherStagesBuffer",
     [](Plan &p) { op<FillOp>(p, "s0.setup", 0).buffer = 8; },
     "s0.setup[0] (fill): buffer 8 belongs to stage 1"},
    {"otherStagesEvent", [](Plan &p) { at(p, "s0.forward", 1).waits = {10}; },
     "waits for event 10, which stage 1 signals"},
    {"otherStagesPhase", [](Plan &p) { p.schedule[3][1].phase = "s0.forward"; },
     "schedule[3][1]: phase is \"s0.forward\", the rank belongs to stage 1"},
    {"noSlot", [](Plan &p) { p.schedule[0][1].slots = {}; },
     "schedule[0][1]: slots lacks frame 0"},
    {"slotFrame", [](Plan &p) { p.schedule[0][1].slots[0].frame = 1; },
     "slots names frame 1"},
    {"slotPastEnd", [](Plan &p) { p.schedule[0][1].slots[0].slot = 2; },
     "slot is 2, expected less than 2, the slots of frame 0"},
    {"slotShared",
     [](Plan &p) {
       for (auto &schedule : p.schedule)
         for (ScheduleEntry &entry : schedule)
           for (FrameSlot &slot : entry.slots)
             slot.slot = 0;
     },
     "of micro-batch 0, but its slot was given to micro-batch 1"},
    {"slotForgotten",
     [](Plan &p) {
       for (int rank : {0, 1})
         std::swap(p.schedule[rank][3].slots, p.schedule[rank][4].slots);
     },
     "its slot was given to"},
    {"outOfFrame",
     [](Plan &p) {
       p.buffers[10].frame = -1;
       p.buffers[10].offset = p.arenaBytes[1];
       p.arenaBytes[1] += 64;
     },
     "s1.backward[0] (matmul): reads buffer 10 \"z\" of micro-batch 0, but "
     "micro-batch 1 wrote it since"},
    {"convOverFrame",
     [](Plan &p) {
       conv(p);
       p.buffers[6].offset = p.frames[1].offset;
     },
     "s1.forward[1] (conv): w overlaps y, which is written"},
    {"productOverFrame",
     [](Plan &p) { p.buffers[6].offset = p.frames[1].offset; },
     "s1.forward[1] (matmul): b overlaps c, which is written"},
    {"sendUnordered", [](Plan &p) { at(p, "s0.forward", 1).waits = {}; },
     "s0.forward[1] (matmul): touches buffer 4 \"y\" while the comm queue "
     "reads"},
    {"recvUnordered", [](Plan &p) { at(p, "s0.backward", 0).waits = {}; },
     "s0.backward[0] (recv): touches buffer 5"},
    {"tag", [](Plan &p) { op<RecvOp>(p, "s1.forward", 0).tag = 3; },
     "s0.backward[0] (recv): rank 0 would wait forever here of micro-batch 0 "
     "for tag 2 from rank 2: rank 2 waits at s1.forward[0] (recv)"},
    {"tagNegative", [](Plan &p) { op<SendOp>(p, "s0.forward", 2).tag = -1; },
     "tag is -1"},
    {"neverReceived",
     [](Plan &p) {
       p.phases["s0.update"].push_back(p.phases["s0.forward"][2]);
       p.phases["s0.update"].back().signals = -1;
     },
     "never received"},
    {"bytesDiffer",
     [](Plan &p) {
       p.buffers[4].shape[0] = 1;
       p.buffers[4].bytes = 12;
       op<MatmulOp>(p, "s0.forward", 1).m = 1;
     },
     "it expects 24 bytes, s0.forward[2] (send) of micro-batch 0 of rank 1 "
     "sends 12"},
    {"deadlock",
     [](Plan &p) {
       // Stage 0 receives the gradient before it sends the activation.
       auto &forward = p.phases["s0.forward"], &back = p.phases["s0.backward"];
       Frame &frame = p.frames[0];
       p.buffers[5].frame = 0;
       p.buffers[5].offset = frame.bytes;
       frame.bytes += 64;
       p.arenaBytes[0] += 64 * frame.count;
       forward.insert(forward.begin(), back.front());
       back.erase(back.begin());
     },
     "s0.forward[0] (recv): rank 0 would wait forever here of micro-batch 0 "
     "for tag 2 from rank 2: rank 2 waits at s1.forward[0] (recv)"},
    {"collectivesDiffer",
     [](Plan &p) {
       op<AllReduceOp>(p, "s0.update", 0).group = 0;
       op<AllReduceOp>(p, "s1.update", 0).group = 0;
     },
     "s0.update[0] (all_reduce): rank 0 would wait forever here of "
     "micro-batch 0 (all_reduce sum 48 bytes of f32 of micro-batch 0): rank 2 "
     "waits at s1.update[0] (all_reduce)"},
    {"outputInFrame",
     [](Plan &p) {
       p.outputs[0].globalShape = {4, 2};
       p.outputs[0].layout = Layout::replicated({4, 2});
       p.outputs[0].buffer = 10;
       p.buffers[10].shape = {4, 2};
       p.buffers[10].bytes = 32;
     },
     "is in a frame, but no store_output takes it"},
};
DPC_TEST_MUTATIONS(StageMutation, twoStages(2, 2), "", kStageMutations);

} // namespace
} // namespace dpc::rt
