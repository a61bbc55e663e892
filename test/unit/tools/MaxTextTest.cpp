//===- MaxTextTest.cpp - Files for MaxText --------------------------------===//
#include "codegen/export/Import.h"

#include "test/unit/tools/ExportJobs.h"

#include <yaml-cpp/yaml.h>

#include <cmath>

using namespace dpc;
using namespace dpc::exports;
using namespace dpc::exports::test;

static Job llamaJob(const std::string &strategy, int64_t ranks,
                    int64_t batch = 64) {
  Job job = jobOf(strategy, ranks, batch);
  job.model = smallLlama();
  return job;
}

static YAML::Node yamlOf(const Job &job) {
  EXPECT_EQ(legalityOf("maxtext", job).rule, "");
  return YAML::Load(textOf(target("maxtext").write(job), "maxtext.yml"));
}

static void expectValues(const YAML::Node &config,
                         const std::map<std::string, std::string> &values) {
  for (const auto &[key, value] : values) {
    ASSERT_TRUE(config[key]) << key;
    EXPECT_EQ(config[key].as<std::string>(), value) << key;
  }
}

TEST(MaxText, StatesTheMesh) {
  YAML::Node config = yamlOf(
      llamaJob("dp=8,tp=2,sp=true,zero=3,micro_batch=4,recompute=full", 16));
  expectValues(config, {{"base_config", "base.yml"},
                        {"dcn_fsdp_parallelism", "2"},
                        {"ici_fsdp_parallelism", "4"},
                        {"dcn_data_parallelism", "1"},
                        {"ici_data_parallelism", "1"},
                        {"ici_tensor_sequence_parallelism", "2"},
                        {"per_device_batch_size", "2.0"},
                        {"gradient_accumulation_steps", "2"},
                        {"remat_policy", "full"},
                        {"dtype", "bfloat16"},
                        {"weight_dtype", "float32"},
                        {"shard_optimizer_over_data", "false"}});
  EXPECT_FALSE(config["ici_tensor_parallelism"]);
  EXPECT_FALSE(config["mesh_axes"]);
  config =
      yamlOf(llamaJob("dp=8,zero=3,hybrid_shard=4,recompute=selective", 8));
  expectValues(config, {{"ici_data_parallelism", "2"},
                        {"ici_fsdp_parallelism", "4"},
                        {"remat_policy", "minimal_with_context"}});
  config = yamlOf(llamaJob("dp=8,zero=1,recompute=full,offload=optimizer", 8));
  expectValues(config, {{"ici_data_parallelism", "8"},
                        {"ici_fsdp_parallelism", "1"},
                        {"shard_optimizer_over_data", "true"},
                        {"optimizer_memory_host_offload", "true"},
                        {"parameter_memory_host_offload", "false"}});
  config = yamlOf(llamaJob("dp=4,cp=2,zero=3,recompute=full", 8));
  expectValues(config, {{"ici_context_parallelism", "2"},
                        {"context_parallel_strategy", "ring"},
                        {"attention", "cudnn_flash_te"}});
}

TEST(MaxText, StatesThePipeline) {
  YAML::Node config = yamlOf(
      llamaJob("dp=2,pp=4,micro_batch=4,schedule=gpipe,recompute=full", 8));
  expectValues(config, {{"ici_pipeline_parallelism", "4"},
                        {"num_pipeline_microbatches", "8"},
                        {"num_pipeline_repeats", "1"},
                        {"num_layers_per_pipeline_stage", "2"},
                        {"gradient_accumulation_steps", "1"},
                        {"per_device_batch_size", "8.0"}});
  config = yamlOf(llamaJob("dp=2,pp=4,vpp=2,schedule=interleaved,micro_batch=8,"
                           "recompute=full",
                           8));
  expectValues(config, {{"num_pipeline_microbatches", "4"},
                        {"num_pipeline_repeats", "2"},
                        {"scan_layers", "true"},
                        {"num_layers_per_pipeline_stage", "1"}});
}

TEST(MaxText, StatesTheModel) {
  YAML::Node config = yamlOf(llamaJob("dp=8,zero=3,recompute=full", 8));
  expectValues(config, {{"decoder_block", "qwen2"},
                        {"base_num_decoder_layers", "8"},
                        {"base_emb_dim", "1024"},
                        {"base_num_query_heads", "16"},
                        {"base_num_kv_heads", "4"},
                        {"head_dim", "64"},
                        {"base_mlp_dim", "2816"},
                        {"vocab_size", "32000"},
                        {"max_target_length", "1024"},
                        {"rope_max_timescale", "10000"},
                        {"normalization_layer_epsilon", "1.0e-05"},
                        {"logits_via_embedding", "false"},
                        {"attention_bias", "false"},
                        {"use_qk_norm", "false"}});
  EXPECT_EQ(config["mlp_activations"].as<std::vector<std::string>>(),
            (std::vector<std::string>{"silu", "linear"}));
  Job job = llamaJob("dp=4,tp=2,ep=2,zero=3,recompute=full", 8);
  job.model = smallMixture();
  config = yamlOf(job);
  expectValues(config, {{"decoder_block", "qwen3_moe"},
                        {"num_experts", "4"},
                        {"num_experts_per_tok", "2"},
                        {"base_moe_mlp_dim", "2816"},
                        {"sparse_matmul", "true"},
                        {"capacity_factor", "-1.0"},
                        {"ici_expert_parallelism", "2"},
                        {"ici_fsdp_parallelism", "2"}});
  // By default, the expert axis is inside the tensor axis.
  auto axes = config["mesh_axes"].as<std::vector<std::string>>();
  EXPECT_LT(std::ranges::find(axes, "expert"),
            std::ranges::find(axes, "tensor"));
  job.model.slotsPerChoice = 1.25;
  expectValues(yamlOf(job),
               {{"sparse_matmul", "false"}, {"capacity_factor", "1.25"}});
}

/// MaxText rounds its products with fractions down.
TEST(MaxText, FractionsGiveWholeNumbers) {
  for (int64_t total : {7, 50, 977, 100'003})
    for (int64_t warmup : {0, 1, 3, 6}) {
      Job job = llamaJob("dp=8,zero=3,recompute=full", 8);
      job.schedule = {"linear", warmup, total, 1e-5};
      YAML::Node config = yamlOf(job);
      auto steps = config["learning_rate_schedule_steps"].as<double>();
      auto warm = config["warmup_steps_fraction"].as<double>(),
           decay = config["wsd_decay_steps_fraction"].as<double>();
      EXPECT_EQ(steps, static_cast<double>(total) + 1);
      EXPECT_EQ(std::floor(steps * warm), static_cast<double>(warmup));
      EXPECT_EQ(std::floor(steps * decay), steps - static_cast<double>(warmup));
      EXPECT_LE(warm + decay, 1.0) << total << " " << warmup;
    }
  for (int64_t ranks : {3, 7, 49, 93}) {
    Job job = llamaJob("dp=1,tp=1,recompute=full", 1, 1);
    job.model.heads = job.model.kvHeads = job.model.feedForward =
        job.model.vocabulary = ranks;
    job.model.parameters = 0;
    job.strategy.tp = ranks;
    job.devicesPerNode = ranks;
    auto each = yamlOf(job)["per_device_batch_size"].as<double>();
    EXPECT_EQ(std::floor(each * static_cast<double>(ranks)), 1) << ranks;
  }
}

TEST(MaxText, RefusesWhatItsKeysDoNotExpress) {
  struct Refused {
    const char *strategy;
    int64_t ranks;
    const char *mention, *nearest;
  };
  const Refused cases[] = {
      {"dp=8,zero=2,micro_batch=1,recompute=full", 8, "ZeRO stages: 0, 1, 3",
       "dp=8,tp=1,zero=3,recompute=full,micro_batch=1"},
      {"dp=8,zero=3,micro_batch=1", 8, "recompute=selective or full",
       "dp=8,tp=1,zero=3,recompute=selective,micro_batch=1"},
      {"dp=8,zero=1,hybrid_shard=4,micro_batch=1,recompute=full", 8,
       "hybrid_shard=1 with zero=1",
       "dp=8,tp=1,zero=1,recompute=full,micro_batch=1"},
      {"dp=4,cp=2,micro_batch=2,recompute=full", 8, "zero=3 with cp > 1",
       "dp=4,tp=1,cp=2,cp_kind=ring,zero=3,recompute=full,micro_batch=2"},
      {"dp=4,cp=2,cp_kind=ulysses,zero=3,micro_batch=2,recompute=full", 8,
       "cp_kind=ring",
       "dp=4,tp=1,cp=2,cp_kind=ring,zero=3,recompute=full,micro_batch=2"},
      {"dp=2,pp=4,micro_batch=1,recompute=full", 8, "schedule=gpipe",
       "dp=2,tp=1,pp=4,schedule=gpipe,recompute=full,micro_batch=1"},
      {"dp=2,pp=4,vpp=2,schedule=interleaved,micro_batch=2,recompute=full", 8,
       "exactly pp",
       "dp=2,tp=1,pp=4,schedule=gpipe,recompute=full,micro_batch=2"},
      {"dp=4,pp=2,micro_batch=16,schedule=gpipe,recompute=full", 8,
       "multiple of pp", nullptr},
      {"dp=1,tp=8,micro_batch=1,recompute=full", 8, "heads of keys and values",
       "dp=8,tp=1,recompute=full,micro_batch=1"},
      {"dp=4,tp=2,micro_batch=6,recompute=full", 8, "multiple of dp", nullptr},
      {"dp=2,tp=4,micro_batch=1,zero=3,offload=all,recompute=full", 8,
       "without gradient accumulation",
       "dp=2,tp=4,zero=3,recompute=full,micro_batch=1,offload=optimizer"},
  };
  for (const Refused &each : cases) {
    SCOPED_TRACE(each.strategy);
    Legality legality =
        legalityOf("maxtext", llamaJob(each.strategy, each.ranks));
    EXPECT_NE(legality.rule.find(each.mention), std::string::npos)
        << legality.rule;
    if (each.nearest) {
      ASSERT_TRUE(legality.nearest);
      EXPECT_EQ(cost::stringifyStrategy(*legality.nearest), each.nearest);
    }
  }
}

TEST(MaxText, ShardsTheStatesOfAdamOnly) {
  Job job = llamaJob("dp=8,zero=1,recompute=full", 8);
  EXPECT_EQ(legalityOf("maxtext", job).rule, "");
  job.optimizer = {"sgd", 0.1};
  Legality legality = legalityOf("maxtext", job);
  EXPECT_NE(legality.rule.find("zero=0 or 3 with SGD"), std::string::npos);
  ASSERT_TRUE(legality.nearest);
  EXPECT_EQ(legality.nearest->zero, 0);
}

/// 12 ranks on nodes of 8: no axis has a whole node.
TEST(MaxText, AxesAreDividedBetweenNodes) {
  Job job = llamaJob("dp=12,micro_batch=1,recompute=full", 12, 24);
  EXPECT_NE(legalityOf("maxtext", job).rule.find("between nodes"),
            std::string::npos);
  job = llamaJob("dp=8,pp=2,zero=3,micro_batch=4,schedule=gpipe,recompute=full",
                 16);
  expectValues(yamlOf(job), {{"dcn_pipeline_parallelism", "2"},
                             {"ici_pipeline_parallelism", "1"},
                             {"dcn_fsdp_parallelism", "1"}});
  EXPECT_NE(
      textOf(target("maxtext").write(job), "maxtext.yml").find("NNODES=2"),
      std::string::npos);
}

TEST(MaxText, RefusesModelsThatItsKeysDoNotDescribe) {
  using Change = std::function<void(Job &)>;
  const std::pair<const char *, Change> cases[] = {
      {"next token", [](Job &j) { j.model.kind = ModelKind::encoder; }},
      {"another number of parameters", [](Job &j) { ++j.model.parameters; }},
      {"state all sizes", [](Job &j) { j.model.vocabulary = 0; }},
      {"no biases", [](Job &j) { j.model.hasBias = true; }},
      {"whole number", [](Job &j) { j.model.ropeBase = 10000.5; }},
      {"gpt3", [](Job &j) { j.model.hasRmsNorm = false; }},
      {"gelu with tanh",
       [](Job &j) { j.model.hasSwiglu = false, j.model.activation = "gelu"; }},
      {"no mask", [](Job &j) { j.model.oddities = {Oddity::addedMask}; }},
      {"no windows", [](Job &j) { j.model.oddities = {Oddity::window}; }},
      {"no attention sinks",
       [](Job &j) { j.model.oddities = {Oddity::sinks}; }},
      {"all layers or in none",
       [](Job &j) { (j.model = smallMixture()).hasExperts[0] = false; }},
      {"shared experts",
       [](Job &j) { (j.model = smallMixture()).sharedWidth = 64; }},
      {"sum to 1",
       [](Job &j) { (j.model = smallMixture()).sharesSumToOne = false; }},
      {"neither momentum",
       [](Job &j) { j.optimizer = {"sgd", 0.1, 0, 0, 0, 0, 0.9}; }},
      {"computes in bf16, fp32", [](Job &j) { j.precision = "fp16"; }},
  };
  for (const auto &[text, change] : cases) {
    Job job = llamaJob("dp=8,zero=3,recompute=full", 8);
    change(job);
    Legality legality = legalityOf("maxtext", job);
    EXPECT_NE(legality.rule.find(text), std::string::npos)
        << text << ": " << legality.rule;
    EXPECT_TRUE(legality.isOfJob) << text;
  }
}

/// The norms before the feed-forward parts of gpt3 have an epsilon of 1e-6.
TEST(MaxText, Gpt3) {
  Job job = llamaJob("dp=8,zero=3,recompute=full", 8);
  job.model = {2, 32, 64, 4, 4, 16, 256, 500};
  job.model.kind = ModelKind::decoder;
  job.model.positions = 32;
  job.model.hasBias = job.model.hasQkvBias = job.model.isTied = true;
  job.model.activation = "gelu_tanh";
  job.model.normEps = 1e-5;
  job.model.hasExperts = {false, false};
  job.model.parameters = 134144;
  EXPECT_NE(legalityOf("maxtext", job).rule.find("1e-06"), std::string::npos);
  job.model.normEps = 1e-6F;
  expectValues(yamlOf(job), {{"decoder_block", "gpt3"},
                             {"trainable_position_size", "32"},
                             {"logits_via_embedding", "true"},
                             {"normalize_embedding_logits", "false"}});
}

static Expected<Imported> readYaml(const std::string &text, int64_t devices,
                                   int64_t devicesPerNode = 8) {
  return readStrategy(text, "run.yml", {devices, {}, devicesPerNode});
}

TEST(MaxText, DefaultsAreThoseOfBaseYml) {
  auto imported = readYaml("per_device_batch_size: 2\nsteps: 10\n", 16);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(imported->kind, "a MaxText configuration");
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy),
            "dp=16,tp=1,zero=3,hybrid_shard=8,recompute=full,micro_batch=2");
  EXPECT_EQ(imported->globalBatch, 32);
  EXPECT_EQ(imported->precision, "bf16");
  EXPECT_EQ(imported->ignored, std::vector<std::string>{"steps"});
  imported = readYaml("per_device_batch_size: 0.5\nici_tensor_parallelism: 2\n"
                      "remat_policy: minimal_with_context\n"
                      "gradient_accumulation_steps: 3\n",
                      8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy),
            "dp=4,tp=2,zero=3,recompute=selective,micro_batch=1");
  EXPECT_EQ(imported->globalBatch, 12);
}

TEST(MaxText, ReadsRepeatsFromTheLayers) {
  auto imported = readYaml("per_device_batch_size: 4\n"
                           "ici_pipeline_parallelism: 4\n"
                           "base_num_decoder_layers: 16\n"
                           "num_layers_per_pipeline_stage: 2\n",
                           8);
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(imported->strategy.vpp, 2);
  EXPECT_EQ(imported->strategy.schedule, cost::ScheduleKind::Interleaved);
  EXPECT_EQ(imported->strategy.microBatch, 4);
  ASSERT_EQ(imported->sizes.size(), 1u);
  EXPECT_EQ(imported->sizes[0].value, 16);
}

TEST(MaxText, RefusedSettingsAreNamed) {
  const std::pair<const char *, const char *> cases[] = {
      {"remat_policy: save_qkv_proj", "line 2: remat_policy=save_qkv_proj; "
                                      "expected full, minimal or"},
      {"ici_fsdp_transpose_parallelism: 2",
       "line 2: ici_fsdp_transpose_parallelism=2 has no key in --strategy"},
      {"ici_autoregressive_parallelism: 2", "ici_autoregressive_parallelism=2"},
      {"weight_dtype: bfloat16", "weight_dtype=bfloat16; expected float32"},
      {"dtype: float16", "dtype=float16; expected bfloat16 or float32"},
      {"quantization: int8", "quantization=int8; expected none"},
      {"opt_type: muon", "opt_type=muon; expected adamw"},
      {"shard_optimizer_over_data: true", "shard no parameters"},
      {"ici_context_parallelism: 2", "expected context_parallel_strategy=ring"},
      {"custom_mesh_and_rule: pure-fsdp", "custom_mesh_and_rule=pure-fsdp"},
      {"base_config: other.yml", "base_config=other.yml is another file"},
      {"enable_diloco: true", "enable_diloco=true"},
      {"global_parameter_scale: 2", "global_parameter_scale=2"},
      {"ici_tensor_parallelism: 3", "does not divide the 8 devices of a node"},
      {"ici_data_parallelism: -1", "expected -1 for one axis only"},
      {"ici_expert_parallelism: 99999999", "too large"},
      {"ici_pipeline_parallelism: 2\nnum_pipeline_repeats: 2\n"
       "num_pipeline_microbatches: 4",
       "num_pipeline_microbatches=4 repeats stages"},
      {"ici_pipeline_parallelism: 2\nnum_pipeline_repeats: 1\n"
       "gradient_accumulation_steps: 2",
       "gradient_accumulation_steps=2 repeats the whole pipeline"},
  };
  for (const auto &[text, mention] : cases) {
    auto imported =
        readYaml("per_device_batch_size: 4\n" + std::string(text) + "\n", 8);
    ASSERT_FALSE(imported) << text;
    EXPECT_NE(imported.message().find(mention), std::string::npos)
        << imported.message();
  }
}
