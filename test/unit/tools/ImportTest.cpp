//===- ImportTest.cpp - configurations of other programs ------------------===//
#include "codegen/export/Import.h"

#include "test/unit/tools/ExportJobs.h"

using namespace dpc;
using namespace dpc::exports;
using namespace dpc::exports::test;

/// Returns the strategy as a file states it: with a micro-batch, and without
/// keys that have no effect.
static cost::Strategy spelledOut(const Job &job) {
  cost::Strategy strategy = job.strategy;
  strategy.microBatch = job.microBatch();
  strategy.batchShares = {};
  if (strategy.pp == 1 || strategy.vpp == 1)
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  if (strategy.cp == 1)
    strategy.cpKind = cost::CpKind::Ring;
  if (strategy.hybridShard == strategy.dp)
    strategy.hybridShard = 1;
  return strategy;
}

TEST(Import, ReadsBackWhatWasWritten) {
  cost::StrategySpace space;
  space.ranks = 8;
  space.globalBatch = 8;
  space.maxPp = 8;
  space.maxCp = 4;
  space.experts = 4;
  space.nodeRanks = 2;
  space.zeros = {0, 1, 2, 3};
  space.recomputes = {cost::Recompute::None, cost::Recompute::Selective,
                      cost::Recompute::Full};
  int64_t read = 0;
  for (auto [name, file] : {std::pair("deepspeed", "ds_config.json"),
                            std::pair("megatron", "megatron.sh")}) {
    std::vector<Rule> rules = target(name).rules();
    for (const cost::Strategy &strategy : cost::enumerateStrategies({}, space))
      for (cost::Offload offload :
           {cost::Offload::None, cost::Offload::Optimizer}) {
        Job job = jobOf("dp=8", 8, 8);
        job.strategy = strategy;
        job.strategy.offload = offload;
        bool isLegal =
            std::all_of(rules.begin(), rules.end(),
                        [&](const Rule &rule) { return rule.holds(job); });
        if (!isLegal)
          continue;
        auto imported = readStrategy(textOf(target(name).write(job), file), 8);
        ASSERT_TRUE(imported) << imported.message();
        ASSERT_EQ(cost::stringifyStrategy(imported->strategy),
                  cost::stringifyStrategy(spelledOut(job)))
            << name;
        ASSERT_EQ(imported->globalBatch, 8);
        ASSERT_EQ(imported->precision, "bf16");
        ++read;
      }
  }
  EXPECT_GT(read, 200);
}

TEST(Import, ScriptsHaveVariablesAndArrays) {
  auto imported = readStrategy(R"(#!/bin/bash
# --pipeline-model-parallel-size 64 is not meant
TP=4
export PP=2
MODEL_ARGS=(
    --num-layers 24
    --seq_length=2048
)
PARALLEL_ARGS=(--tensor-model-parallel-size ${TP:-8} --pipeline-model-parallel-size $PP
    --num-layers-per-virtual-pipeline-stage 6 --sequence-parallel --tp-comm-overlap)
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${MODEL_ARGS[@]} \
    --use-distributed-optimizer --micro-batch-size 2 --global-batch-size "64" \
    --recompute-activations --bf16 --lr 1e-4
)",
                               32);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy),
            "dp=2,tp=4,pp=2,vpp=2,sp=true,zero=1,schedule=interleaved,"
            "recompute=selective,micro_batch=2,tp_overlap=chunked");
  EXPECT_EQ(imported->globalBatch, 64);
  EXPECT_EQ(imported->ignored, std::vector<std::string>{"--lr"});
}

TEST(Import, ScriptsOfFp8) {
  Job job = jobOf("dp=8", 8);
  job.precision = "fp8";
  auto script =
      readStrategy(textOf(target("megatron").write(job), "megatron.sh"), 8);
  ASSERT_TRUE(script) << script.message();
  EXPECT_EQ(script->precision, "fp8");
  EXPECT_EQ(std::count_if(script->ignored.begin(), script->ignored.end(),
                          [](const std::string &flag) {
                            return flag.rfind("--fp8", 0) == 0;
                          }),
            0);
  for (const char *recipe : {"delayed", "mxfp8", "blockwise"}) {
    auto scaled = readStrategy("pretrain_gpt.py --micro-batch-size 2 --bf16 "
                               "--fp8-format hybrid --fp8-recipe " +
                                   std::string(recipe),
                               8);
    ASSERT_TRUE(scaled) << scaled.message();
    EXPECT_EQ(scaled->precision, "fp8");
    EXPECT_EQ(scaled->ignored,
              std::vector{"--fp8-recipe " + std::string(recipe)});
  }
  auto usual = readStrategy(
      "pretrain_gpt.py --micro-batch-size 2 --bf16 --fp8-format hybrid", 8);
  ASSERT_TRUE(usual) << usual.message();
  EXPECT_EQ(usual->ignored, std::vector<std::string>{"--fp8-recipe delayed"});
  auto other = readStrategy(
      "pretrain_gpt.py --micro-batch-size 2 --bf16 --fp8-format e4m3", 8);
  ASSERT_TRUE(other) << other.message();
  EXPECT_EQ(other->precision, "bf16");
  EXPECT_EQ(other->ignored, std::vector<std::string>{"--fp8-format"});
}

/// A file that was written for one model is refused for other models.
TEST(Import, FilesOfOtherModelsAreTold) {
  const std::pair<int64_t ModelShape::*, const char *> sizes[] = {
      {&ModelShape::layers, "--num-layers 24, but the model has 25 layers"},
      {&ModelShape::hidden, "--hidden-size 1024, but the model has a hidden "
                            "size of 1025"},
      {&ModelShape::heads, "--num-attention-heads 16, but the model has 17 "
                           "attention heads"},
      {&ModelShape::kvHeads, "--num-query-groups 4, but the model has 5 heads "
                             "of keys and values"},
      {&ModelShape::feedForward, "--ffn-hidden-size 4096, but the model has a "
                                 "feed-forward size of 4097"},
      {&ModelShape::sequence, "--seq-length 2048, but the model has a sequence "
                              "length of 2049"}};
  Job job = jobOf("dp=8,recompute=full", 8);
  auto script =
      readStrategy(textOf(target("megatron").write(job), "megatron.sh"), 8);
  ASSERT_TRUE(script);
  EXPECT_EQ(whyOtherModel(script->sizes, job.model), "");
  for (auto [size, expected] : sizes) {
    ModelShape other = job.model;
    ++(other.*size);
    EXPECT_EQ(whyOtherModel(script->sizes, other), expected);
    other.*size = 0; // unknown
    EXPECT_EQ(whyOtherModel(script->sizes, other), "");
  }
  auto config =
      readStrategy(textOf(target("deepspeed").write(job), "ds_config.json"), 8);
  ASSERT_TRUE(config);
  EXPECT_EQ(whyOtherModel(config->sizes, job.model), "");
  // A checkpoint may cover a part of a layer or several layers, so the number
  // of layers is unknown.
  job.model.layers = 32;
  EXPECT_EQ(whyOtherModel(config->sizes, job.model), "");
  config = readStrategy(R"({"vocabulary_size": 32000})", 8);
  ASSERT_TRUE(config);
  EXPECT_NE(whyOtherModel(config->sizes, job.model), "");
}

TEST(Import, SizesAreComparedAsMegatronMeansThem) {
  auto whyNot = [](const std::string &flags, const ModelShape &model) {
    auto imported = readStrategy("--micro-batch-size 1 " + flags, 8);
    EXPECT_TRUE(imported);
    return whyOtherModel(imported->sizes, model);
  };
  ModelShape model = jobOf("dp=8", 8).model;
  EXPECT_EQ(whyNot("--vocab-size 50257 --hidden-size $HIDDEN", model), "");
  model.vocabulary = 50304; // padded
  EXPECT_EQ(whyNot("--vocab-size 50257", model), "");
  EXPECT_EQ(whyNot("--vocab-size 32000", model),
            "--vocab-size 32000, but the model has a vocabulary of 50304");
  EXPECT_EQ(whyNot("--num-query-groups 1", model), "");
  EXPECT_EQ(whyNot("--num-experts 8 --ffn-hidden-size 77", model),
            "--num-experts 8, but the model has no experts");
  EXPECT_EQ(whyNot("pretrain_t5.py --num-layers 12", model), "");
  // A vision model with 196 patches and a class token.
  model.kind = ModelKind::other;
  EXPECT_EQ(whyNot("--seq-length 196", model), "");
}

TEST(Import, DeepSpeedLeavesOpenWhatIsAuto) {
  auto imported = readStrategy(R"({
    "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0,
    "fp16": {"enabled": false}, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "overlap_comm": true,
      "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}}
  })",
                               8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy),
            "dp=8,tp=1,zero=3,offload=optimizer");
  EXPECT_EQ(imported->precision, "bf16");
  EXPECT_EQ(imported->globalBatch, 0);
  EXPECT_EQ(imported->ignored,
            (std::vector<std::string>{"gradient_clipping",
                                      "zero_optimization.overlap_comm"}));
}

TEST(Import, DeepSpeedKeysWithoutEffectAreListed) {
  auto imported = readStrategy(R"({
    "train_micro_batch_size_per_gpu": 2, "fp16": {"enabled": true,
      "initial_scale_power": 8}, "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
      "pin_memory": true}},
    "activation_checkpointing": {"number_checkpoints": 4,
      "cpu_checkpointing": true},
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "autotuning": {"enabled": false, "fast": true}
  })",
                               8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(imported->precision, "fp16");
  EXPECT_EQ(imported->ignored,
            (std::vector<std::string>{
                "activation_checkpointing.cpu_checkpointing",
                "fp16.initial_scale_power", "optimizer.params",
                "zero_optimization.offload_optimizer.pin_memory"}));
}

TEST(Import, RefusesWhatHasNoKey) {
  const std::pair<const char *, const char *> cases[] = {
      {R"({"elasticity": {"enabled": true}})", "elasticity"},
      {R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}})",
       "zero_hpz_partition_size=4"},
      {R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
           "gradient_accumulation_steps": 2})",
       "train_batch_size=64; expected 32, which is "
       "train_micro_batch_size_per_gpu=2 x gradient_accumulation_steps=2 x "
       "dp=8"},
      {R"({"zero_optimization": {"stage": 5}})", "expected 0 to 3"},
      {R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})",
       "bf16 and fp16 are both enabled; expected one of them"},
      {R"({"tensor_parallel": {"autotp_size": 3}})",
       "does not divide the 8 devices"},
      {"--tensor-model-parallel-size 3", "does not divide the 8 devices"},
      {"--tensor-model-parallel-size $TP", "'$TP'; expected a whole number"},
      {"--micro-batch-size 1 --hierarchical-context-parallel-sizes 2 2",
       "has no key of --strategy"},
      {"--micro-batch-size 1 --recompute-granularity full --recompute-method "
       "block --recompute-num-layers 2",
       "some layers only"},
      {"--micro-batch-size 1 --nproc-per-node 16", "starts 16 processes"},
      {"--tensor-model-parallel-size 4294967296 --pipeline-model-parallel-size "
       "4294967296",
       "is too large; expected at most 1048576"},
      {"--pipeline-model-parallel-size 4 --num-layers 8 "
       "--num-layers-per-virtual-pipeline-stage 4611686018427387904",
       "is too large"},
      {R"({"train_batch_size": 64, "gradient_accumulation_steps":
           4611686018427387904, "tensor_parallel": {"autotp_size": 2}})",
       "is too large"},
      {R"({"train_batch_size": 64, "gradient_accumulation_steps": 2,
           "tensor_parallel": {"autotp_size": 16}})",
       "does not divide the 8 devices"},
      {"echo hello", "none found"},
      {"{", "not a JSON object"}};
  for (auto [text, mention] : cases) {
    auto imported = readStrategy(text, 8);
    ASSERT_FALSE(imported) << text;
    EXPECT_NE(imported.message().find(mention), std::string::npos)
        << imported.message();
    EXPECT_EQ(imported.message().find('\n'), std::string::npos);
  }
}
