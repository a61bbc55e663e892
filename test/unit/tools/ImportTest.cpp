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
  bool isInterleaved = strategy.schedule == cost::ScheduleKind::Interleaved;
  if (strategy.pp == 1 || (isInterleaved && strategy.vpp == 1))
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  if (strategy.cp == 1)
    strategy.cpKind = cost::CpKind::Ring;
  if (strategy.hybridShard == strategy.dp)
    strategy.hybridShard = 1;
  return strategy;
}

static Expected<Imported> readStrategy(const std::string &text,
                                       int64_t devices) {
  return exports::readStrategy(text, "", {devices});
}

namespace {

/// A file of a target, and what it does not state.
struct Written {
  const char *target, *file;
  bool hasBatch = true;
  bool hasSequenceParallel = true;
};

} // namespace

static const Written kWritten[] = {
    {"accelerate", "accelerate.yaml", /*hasBatch=*/false},
    {"calculon", "calculon-execution.json"},
    {"colossalai", "colossalai.json"},
    {"colossalai", "opensora.py"},
    {"deepspeed", "ds_config.json"},
    {"galvatron", "galvatron.json", true, /*hasSequenceParallel=*/false},
    {"maxtext", "maxtext.yml"},
    {"megatron", "megatron.sh"},
    {"torchtitan", "torchtitan.py"},
    {"torchtitan", "torchtitan.toml"}};

/// Expects that the file states the strategy of the job.
static void expectSame(const Written &written, const Job &job,
                       const std::string &text) {
  auto imported = exports::readStrategy(text, written.file, {job.ranks()});
  ASSERT_TRUE(imported) << imported.message() << "\n" << text;
  cost::Strategy read = imported->strategy, expected = spelledOut(job);
  if (imported->chunks.each > 0)
    read.vpp = chunksPerStage(imported->chunks, job.model.layers, read.pp);
  if (!written.hasBatch) {
    expected.microBatch = 0;
    if (imported->microBatches > 0)
      ASSERT_EQ(imported->microBatches, job.microBatches());
    // The script calls gradient_checkpointing_enable().
    if (text.find("deepspeed_config") != std::string::npos)
      expected.recompute = cost::Recompute::None;
  } else {
    ASSERT_EQ(imported->globalBatch, job.globalBatch) << text;
  }
  if (!written.hasSequenceParallel)
    expected.sp = false;
  ASSERT_EQ(cost::stringifyStrategy(read), cost::stringifyStrategy(expected))
      << text;
  ASSERT_EQ(imported->precision,
            written.target == std::string("galvatron") ? "" : job.precision);
}

static cost::StrategySpace manyStrategies() {
  cost::StrategySpace space;
  space.ranks = 8;
  space.globalBatch = 8;
  space.maxPp = 8;
  space.maxCp = 4;
  space.experts = 4;
  space.nodeRanks = 2;
  space.zeros = {0, 1, 2, 3};
  space.schedules.push_back(cost::ScheduleKind::GPipe);
  space.recomputes = {cost::Recompute::None, cost::Recompute::Selective,
                      cost::Recompute::Full};
  return space;
}

TEST(Import, ReadsBackWhatWasWritten) {
  using cost::Offload;
  const auto strategies = cost::enumerateStrategies({}, manyStrategies());
  for (const Written &written : kWritten) {
    std::vector<Rule> rules = target(written.target).rules();
    int64_t read = 0;
    auto check = [&](const Job &job) {
      if (!checkLegality(job, rules).ok())
        return;
      for (const ExportedFile &file : target(written.target).write(job).files)
        if (file.name == written.file) {
          ASSERT_NO_FATAL_FAILURE(expectSame(written, job, file.text));
          ++read;
        }
    };
    for (const cost::Strategy &strategy : strategies)
      for (Offload offload : {Offload::None, Offload::Optimizer, Offload::All})
        for (auto overlap : {cost::TpOverlap::None, cost::TpOverlap::Chunked}) {
          Job job = withModelFor(written.target, jobOf("dp=8", 8, 8));
          job.strategy = strategy;
          job.strategy.offload = offload;
          job.strategy.tpOverlap = overlap;
          ASSERT_NO_FATAL_FAILURE(check(job));
        }
    EXPECT_GT(read, 20) << written.file;
  }
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
      "profile": true},
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "autotuning": {"enabled": false, "fast": true}
  })",
                               8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(imported->precision, "fp16");
  EXPECT_EQ(imported->ignored,
            (std::vector<std::string>{
                "fp16.initial_scale_power",
                "zero_optimization.offload_optimizer.pin_memory",
                "activation_checkpointing.profile", "optimizer.params"}));
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
      {"--tensor-model-parallel-size $TP",
       "line 1: --tensor-model-parallel-size $TP; expected a whole number"},
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
      {"echo hello", "unknown kind of file, with no settings"},
      {"{", "not a JSON object"}};
  for (auto [text, mention] : cases) {
    auto imported = readStrategy(text, 8);
    ASSERT_FALSE(imported) << text;
    EXPECT_NE(imported.message().find(mention), std::string::npos)
        << imported.message();
    EXPECT_EQ(imported.message().find('\n'), std::string::npos);
  }
}

/// Expects the strategy that `text` states on eight devices.
static Imported expectRead(const std::string &path, const std::string &text,
                           const std::string &strategy) {
  auto imported = exports::readStrategy(text, path, {8});
  EXPECT_TRUE(imported) << imported.message();
  if (!imported)
    return {};
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy, 8), strategy);
  return *imported;
}

TEST(Import, TorchtitansTomlAndFlags) {
  Imported toml = expectRead("llama.toml", R"(
[model]
flavor = "8B"
[training]
local_batch_size = 4
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_layers_per_stage = 4
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)",
                             "dp=2,tp=2,pp=2,sp=true,schedule=interleaved,"
                             "recompute=selective,micro_batch=1,"
                             "tp_overlap=chunked");
  EXPECT_EQ(toml.kind, "a torchtitan configuration");
  EXPECT_EQ(toml.globalBatch, 8);
  EXPECT_EQ(toml.precision, "bf16");
  EXPECT_EQ(chunksPerStage(toml.chunks, 30, 2), 4);
  EXPECT_EQ(toml.ignored, std::vector<std::string>{"model"});
  ASSERT_EQ(toml.sizes.size(), 1U);
  EXPECT_EQ(toml.sizes[0].value, 8192);

  Imported flags = expectRead(
      "run.sh",
      "torchrun --nproc_per_node=8 -m torchtitan.train "
      "--parallelism.tensor_parallel_degree=4 --training.local_batch_size 2 "
      "--activation-checkpoint.mode full --metrics.log_freq 1",
      "dp=2,tp=4,sp=true,zero=3,recompute=full,micro_batch=2");
  EXPECT_EQ(flags.ignored, std::vector<std::string>{"--metrics"});
}

TEST(Import, TorchtitansPython) {
  Imported recipe = expectRead("config.py", R"PY("""parallelism.x = 1"""
def run(degree=1) -> Trainer.Config:  # tensor_parallel_degree=8
    return Trainer.Config(
        training=TrainingConfig(local_batch_size=1, steps=1_000),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2, enable_sequence_parallel=False,
            module_fqns_per_model_part=[["a"], ["b", "c"]],
        ),
        activation_checkpoint=FullAC.Config(),
    )
)PY",
                               "dp=4,tp=2,zero=3,recompute=full,micro_batch=1");
  EXPECT_EQ(recipe.globalBatch, 4);
  auto twice =
      exports::readStrategy("a(parallelism=P(tensor_parallel_degree=2))\n"
                            "b(parallelism=P(tensor_parallel_degree=4))",
                            "c.py", {8});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.message(),
            "line 2: parallelism.tensor_parallel_degree=4 is not the only "
            "value of this setting in the file; expected a file with one "
            "configuration");
}

TEST(Import, AcceleratesEngines) {
  Imported fsdp = expectRead("fsdp.yaml", R"(
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 8
fsdp_config:
  fsdp_sharding_strategy: HYBRID_SHARD
  fsdp_offload_params: 'false'
  fsdp_activation_checkpointing: true
)",
                             "dp=8,tp=1,zero=3,hybrid_shard=4,recompute=full");
  EXPECT_EQ(fsdp.precision, "bf16");
  Imported deepSpeed = expectRead("ds.yaml", R"(
distributed_type: DEEPSPEED
num_processes: 4
deepspeed_config: {zero_stage: 3, offload_optimizer_device: nvme,
  offload_param_device: none, gradient_accumulation_steps: 2}
)",
                                  "dp=4,tp=1,zero=3,offload=optimizer,"
                                  "offload_to=disk,ranks=4");
  EXPECT_EQ(deepSpeed.microBatches, 2);
  expectRead("mega.yml", R"(
distributed_type: MEGATRON_LM
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_pp_degree: 2
  megatron_lm_sequence_parallelism: true
  megatron_lm_use_distributed_optimizer: true
  megatron_lm_recompute_activations: true
)",
             "dp=2,tp=2,pp=2,sp=true,zero=1,recompute=selective");
  expectRead("ddp.yaml", "distributed_type: MULTI_GPU\n", "dp=8,tp=1");
}

TEST(Import, MegatronsRecomputation) {
  const std::string model = "--micro-batch-size 1 --num-layers 8 "
                            "--pipeline-model-parallel-size 2 "
                            "--recompute-granularity full ";
  for (const char *flags :
       {"--recompute-method uniform --recompute-num-layers 1",
        "--recompute-method block --recompute-num-layers 4"})
    expectRead("run.sh", model + flags,
               "dp=4,tp=1,pp=2,recompute=full,micro_batch=1");
}

TEST(Import, QuantizedWeightsAreAnOption) {
  auto imported = readStrategy(
      R"({"zero_optimization": {"stage": 3, "zero_quantized_weights": true}})",
      8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_TRUE(imported->compressesWeights);
}

TEST(Import, FilesThatNoReaderKnowsAreRefused) {
  const std::tuple<const char *, const char *, const char *> cases[] = {
      {"a.json", R"({"model_type": "llama", "hidden_size": 64})",
       "unknown kind of file, with settings such as hidden_size, model_type; "
       "expected a plugin of Colossal-AI, a strategy of Galvatron, "},
      {"a.json", "[1]", "line 1: not a JSON object"},
      {"a.json", "{\n\"stage\": 1,\n}",
       "line 3: not a JSON object: syntax error"},
      {"a.toml", "[training]\nsteps = 3", "unknown kind of file"},
      {"a.toml", "[training\nsteps = 3", "line 1: not TOML: "},
      {"a.yaml", "a: [1", "not YAML: "},
      {"a.yaml", "zero_optimization: {stage: 3}", "unknown kind of file"},
      {"a.py", "print(1)", "unknown kind of file, with no settings"},
      {"a.sh", "python train.py --lr 3", "with settings such as lr"},
      {"a", "", "unknown kind of file"}};
  for (auto [path, text, expected] : cases) {
    auto imported = exports::readStrategy(text, path, {8});
    ASSERT_FALSE(imported) << text;
    EXPECT_NE(imported.message().find(expected), std::string::npos)
        << imported.message();
    EXPECT_EQ(imported.message().find('\n'), std::string::npos);
  }
}

/// The user may replace what the file says and dpc cannot express.
TEST(Import, KeysAfterTheFileReplaceItsOwn) {
  const std::tuple<const char *, const char *, const char *, const char *>
      cases[] = {
          {"ds.json", R"({"zero_optimization": {"stage": 3,
             "zero_hpz_partition_size": 4}})",
           "line 2: zero_optimization.zero_hpz_partition_size=4 keeps a second",
           "hybrid_shard"},
          {"run.sh",
           "x --micro-batch-size 1 --recompute-granularity full\\\n"
           " --recompute-method uniform --recompute-num-layers 2",
           "line 2: --recompute-num-layers 2 keeps the input of a group of "
           "layers; expected 1",
           "recompute"},
          {"a.toml",
           "[parallelism]\ntensor_parallel_degree = 2\n"
           "[activation_checkpoint]\nmode = \"selective\"\n"
           "selective_ac_option = \"3\"",
           "line 5: activation_checkpoint.selective_ac_option=3 recomputes "
           "one of 3 layers",
           "recompute"},
          {"a.json", R"({"plugin": "GeminiPlugin", "kwargs":
             {"placement_policy": "auto"}})",
           "line 2: kwargs.placement_policy=auto moves parameters at run time",
           "offload"},
          {"g.json", R"({"pp_deg": 1, "tp_sizes_enc": "1,2"})",
           "line 1: tp_sizes_enc=1,2 differs between layers", "tp"}};
  for (auto [path, text, expected, key] : cases) {
    auto refused = exports::readStrategy(text, path, {8});
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.message().find(expected), 0U) << refused.message();
    std::string value = key == std::string("tp") ? "2" : "full";
    EXPECT_TRUE(exports::readStrategy(text, path, {8, {{key, value}}})) << text;
  }
  auto wider = exports::readStrategy(
      R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2,
          "gradient_accumulation_steps": 1})",
      "ds.json", {8, {{"tp", "2"}}});
  ASSERT_TRUE(wider) << wider.message();
  EXPECT_EQ(cost::stringifyStrategy(wider->strategy),
            "dp=4,tp=2,micro_batch=2");
}
