//===- ExportTest.cpp - Files for other programs --------------------------===//
#include "test/unit/tools/ExportJobs.h"

#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <cmath>

using namespace dpc;
using namespace dpc::exports;
using namespace dpc::exports::test;

namespace {

struct Refused {
  const char *target, *strategy;
  int64_t ranks;
  const char *mention; ///< In the rule.
  const char *nearest;
};

} // namespace

TEST(Export, RefusesWhatATargetCannotExpress) {
  const Refused cases[] = {
      {"deepspeed", "dp=2,pp=2,zero=2,micro_batch=1", 4, "pipelines run with",
       "dp=2,tp=1,pp=2,zero=1,micro_batch=1"},
      {"deepspeed", "dp=2,cp=2,micro_batch=1", 4, "cp_kind=ulysses",
       "dp=2,tp=1,cp=2,cp_kind=ulysses,micro_batch=1"},
      {"deepspeed", "dp=2,tp=2,sp=true,micro_batch=1", 4, "sp=false",
       "dp=2,tp=2,micro_batch=1"},
      {"deepspeed", "dp=4,zero=1,offload=parameters,micro_batch=1", 4,
       "with ZeRO 3", "dp=4,tp=1,zero=3,micro_batch=1,offload=parameters"},
      {"megatron", "pp=2,dp=2,zero=3,micro_batch=1", 4, "pipeline stages",
       "dp=2,tp=1,pp=2,zero=1,micro_batch=1"},
      {"megatron", "tp=2x2,micro_batch=1", 4, "one axis",
       "dp=1,tp=4,micro_batch=1"},
      {"megatron", "pp=4,micro_batch=1,schedule=zb-h1", 4, "schedules",
       "dp=1,tp=1,pp=4,micro_batch=1"},
      {"megatron", "pp=16,micro_batch=1", 16, "same number",
       "dp=2,tp=1,pp=8,micro_batch=1"},
      {"megatron", "tp=4,tp_overlap=chunked,micro_batch=1", 4, "needs sp=true",
       "dp=1,tp=4,sp=true,micro_batch=1,tp_overlap=chunked"},
      {"deepspeed", "tp=4,tp_overlap=chunked,micro_batch=1", 4,
       "no setting for tp_overlap=chunked", "dp=1,tp=4,micro_batch=1"},
      {"torchtitan", "dp=4,zero=1,micro_batch=1", 4, "ZeRO stages: 0, 2, 3",
       "dp=4,tp=1,zero=2,micro_batch=1"},
      {"torchtitan", "dp=2,cp=2,micro_batch=1", 4, "zero=2 or 3",
       "dp=2,tp=1,cp=2,cp_kind=ring,zero=3,micro_batch=1"},
      {"accelerate", "dp=4,zero=3,recompute=selective,micro_batch=1", 4,
       "kinds of recomputation",
       "dp=4,tp=1,zero=3,recompute=full,micro_batch=1"},
      {"colossalai", "pp=2,dp=2,zero=2,micro_batch=1", 4, "ZeRO 0 or 1",
       "dp=2,tp=1,pp=2,zero=1,micro_batch=1"},
      {"galvatron", "dp=4,zero=2,offload=optimizer,micro_batch=1", 4,
       "offloads", "dp=4,tp=1,zero=2,micro_batch=1"},
      {"calculon", "dp=2,cp=2,micro_batch=1", 4, "no context parallelism",
       "dp=4,tp=1,micro_batch=1"},
      {"calculon", "tp=3,dp=2,micro_batch=1", 6, "heads evenly", nullptr},
  };
  for (const Refused &each : cases) {
    SCOPED_TRACE(std::string(each.target) + " " + each.strategy);
    Legality legality =
        legalityOf(each.target, jobOf(each.strategy, each.ranks));
    EXPECT_NE(legality.rule.find(each.mention), std::string::npos)
        << legality.rule;
    ASSERT_EQ(legality.nearest.has_value(), each.nearest != nullptr);
    if (each.nearest) {
      EXPECT_EQ(cost::stringifyStrategy(*legality.nearest), each.nearest);
    }
  }
}

/// Each strategy is either legal, or the refusal names a legal one.
TEST(Export, EveryStrategyIsWrittenOrMended) {
  cost::StrategySpace space;
  space.ranks = 8;
  space.globalBatch = 8;
  space.maxPp = 8;
  space.maxCp = 4;
  space.experts = 4;
  space.grids = true;
  space.nodeRanks = 2;
  space.zeros = {0, 1, 2, 3};
  space.schedules = {cost::ScheduleKind::GPipe, cost::ScheduleKind::OneFOneB,
                     cost::ScheduleKind::Interleaved, cost::ScheduleKind::ZbH1};
  space.recomputes = {cost::Recompute::None, cost::Recompute::Selective,
                      cost::Recompute::Full};
  std::vector<cost::Strategy> all = cost::enumerateStrategies({}, space);
  ASSERT_GT(all.size(), 1000u);
  for (const Target &each : targets()) {
    std::vector<Rule> rules = each.rules();
    int64_t written = 0, mended = 0;
    for (const cost::Strategy &strategy : all) {
      Job job = withModelFor(each.name, jobOf("dp=8", 8, 8));
      job.strategy = strategy;
      Legality legality = checkLegality(job, rules);
      if (legality.ok()) {
        ++written;
        ASSERT_FALSE(each.write(job).files.empty());
        continue;
      }
      if (!legality.nearest)
        continue;
      ++mended;
      job.strategy = *legality.nearest;
      ASSERT_EQ(checkLegality(job, rules).rule, "")
          << each.name << " " << cost::stringifyStrategy(strategy);
      ASSERT_EQ(job.ranks(), 8);
      ASSERT_NE(job.strategy, strategy);
    }
    EXPECT_GT(written, 20) << each.name;
    EXPECT_GT(mended, 200) << each.name;
  }
}

TEST(Export, MegatronFlags) {
  Job job = jobOf("dp=2,tp=4,pp=4,vpp=2,sp=true,zero=1,micro_batch=2,"
                  "recompute=full,tp_overlap=chunked",
                  32);
  std::string text = textOf(target("megatron").write(job), "megatron.sh");
  for (const char *flag :
       {"--nnodes 4 --nproc-per-node 8", "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 4",
        "--num-virtual-stages-per-pipeline-rank 2", "--sequence-parallel",
        "--tp-comm-overlap", "--use-distributed-optimizer",
        "--micro-batch-size 2", "--global-batch-size 64",
        "--recompute-granularity full", "--recompute-method uniform",
        "--recompute-num-layers 1", "--num-layers 24", "--num-query-groups 4",
        "--bf16"})
    EXPECT_NE(text.find(flag), std::string::npos) << flag << "\n" << text;
  EXPECT_EQ(text.find("--use-megatron-fsdp"), std::string::npos);
  job.stageLayers = {2, 3, 3, 4, 3, 3, 3, 3};
  text = textOf(target("megatron").write(job), "megatron.sh");
  EXPECT_NE(text.find("--pipeline-model-parallel-layout "
                      "\"Et*2|t*3|t*3|t*4|t*3|t*3|t*3|t*3L\""),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("--num-virtual-stages"), std::string::npos);
}

TEST(Export, MegatronFsdpHasNoConnectionLimit) {
  std::string text =
      textOf(target("megatron").write(jobOf("dp=8,zero=3,hybrid_shard=4", 8)),
             "megatron.sh");
  EXPECT_NE(text.find("--data-parallel-sharding-strategy optim_grads_params"),
            std::string::npos);
  EXPECT_NE(text.find("--num-distributed-optimizer-instances 2"),
            std::string::npos);
  EXPECT_EQ(text.find("CUDA_DEVICE_MAX_CONNECTIONS=1"), std::string::npos);
}

/// A model of 2 layers whose flags give 134144 parameters.
static ModelShape smallGpt() {
  ModelShape model = {2, 32, 64, 4, 4, 16, 256, 500};
  model.kind = ModelKind::decoder;
  model.positions = 32;
  model.hasBias = model.hasQkvBias = model.isTied = true;
  model.activation = "gelu_tanh";
  model.normEps = 1e-5;
  model.hasExperts = {false, false};
  model.parameters = 134144;
  return model;
}

TEST(Export, MegatronStatesEveryTermOfTheModel) {
  Job job = jobOf("dp=4,zero=1", 4);
  job.model = smallGpt();
  EXPECT_EQ(legalityOf("megatron", job).rule, "");
  std::string text = textOf(target("megatron").write(job), "megatron.sh");
  for (const char *flag : {"--vocab-size 500", "--max-position-embeddings 32",
                           "--position-embedding-type learned_absolute",
                           "--norm-epsilon 1e-05", "--normalization LayerNorm",
                           "--hidden-dropout 0.0", "--attention-dropout 0.0"})
    EXPECT_NE(text.find(flag), std::string::npos) << flag << "\n" << text;
  for (const char *flag : {"--untie", "--disable-bias", "--no-bias-gelu"})
    EXPECT_EQ(text.find(flag), std::string::npos) << flag << "\n" << text;
}

TEST(Export, MegatronRefusesModelsThatItsFlagsDoNotDescribe) {
  auto ruleFor = [](const std::function<void(ModelShape &)> &change) {
    Job job = jobOf("dp=4,zero=1", 4);
    job.model = smallGpt();
    change(job.model);
    Legality legality = legalityOf("megatron", job);
    EXPECT_EQ(legality.isOfJob, !legality.rule.empty());
    return legality.rule;
  };
  using Change = std::function<void(ModelShape &)>;
  const std::pair<const char *, Change> cases[] = {
      {"another number of parameters", [](auto &m) { m.parameters += 64; }},
      {"another number of parameters", [](auto &m) { m.isTied = false; }},
      {"another number of parameters", [](auto &m) { m.positions = 64; }},
      {"have SwiGLU", [](auto &m) { m.activation = "relu"; }},
      {"with biases, gelu with tanh",
       [](auto &m) { m.hasBias = m.hasQkvBias = false; }},
      {"rotary frequencies", [](auto &m) { m.hasRope = true; }},
      {"rotary frequencies",
       [](auto &m) { m.hasRope = true, m.ropeBase = 10000.5; }},
      {"a single expert",
       [](auto &m) { m.expertsPerToken = 1, m.sharesSumToOne = true; }},
      {"not their sums", [](auto &m) { m.oddities = {Oddity::postNorm}; }},
      {"ALiBi", [](auto &m) { m.oddities = {Oddity::addedMask}; }},
      {"no windows of keys", [](auto &m) { m.oddities = {Oddity::window}; }},
      {"no attention sinks", [](auto &m) { m.oddities = {Oddity::sinks}; }},
      {"no dropout", [](auto &m) { m.oddities = {Oddity::dropout}; }},
      {"state all sizes", [](auto &m) { m.vocabulary = 0; }},
  };
  for (const auto &[text, change] : cases)
    EXPECT_NE(ruleFor(change).find(text), std::string::npos)
        << text << ": " << ruleFor(change);
}

TEST(Export, MegatronHasProgramsForModelsOfTokens) {
  Job job = jobOf("dp=4,zero=1", 4);
  job.model.kind = ModelKind::encoder;
  std::string text = textOf(target("megatron").write(job), "megatron.sh");
  EXPECT_NE(text.find("/pretrain_bert.py\""), std::string::npos) << text;
  job.model.kind = ModelKind::other;
  Legality legality = legalityOf("megatron", job);
  EXPECT_NE(legality.rule.find("predict tokens"), std::string::npos);
  EXPECT_TRUE(legality.isOfJob);
  // Accelerate does not need Megatron-LM for this strategy.
  EXPECT_TRUE(legalityOf("accelerate", job).ok());
  job.strategy = jobOf("tp=4,sp=true", 4).strategy;
  legality = legalityOf("accelerate", job);
  EXPECT_NE(legality.rule.find("predict tokens"), std::string::npos);
  EXPECT_FALSE(legality.isOfJob);
}

TEST(Export, DeepSpeedConfig) {
  auto config =
      jsonOf("deepspeed", jobOf("dp=8,zero=3,offload=all,micro_batch=2", 8),
             "ds_config.json");
  EXPECT_EQ(config["train_batch_size"], 64);
  EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(config["gradient_accumulation_steps"], 4);
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["zero_optimization"]["offload_param"]["device"], "cpu");
  EXPECT_EQ(config["bf16"]["enabled"], true);
}

TEST(Export, TorchtitanHasTwoDialects) {
  Job job = jobOf("dp=4,tp=2,sp=true,zero=3,hybrid_shard=2,micro_batch=4", 8);
  Exported exported = target("torchtitan").write(job);
  toml::table config = toml::parse(textOf(exported, "torchtitan.toml"));
  toml::table &parallelism = *config["parallelism"].as_table();
  EXPECT_EQ(parallelism["data_parallel_replicate_degree"].value<int>(), 2);
  EXPECT_EQ(parallelism["data_parallel_shard_degree"].value<int>(), 2);
  EXPECT_EQ(parallelism["tensor_parallel_degree"].value<int>(), 2);
  EXPECT_EQ(config["training"]["local_batch_size"].value<int>(), 4);
  EXPECT_NE(textOf(exported, "torchtitan.py")
                .find("data_parallel_replicate_degree=2,"),
            std::string::npos);
  job.strategy.sp = false;
  exported = target("torchtitan").write(job);
  EXPECT_EQ(exported.files.size(), 1u);
  EXPECT_NE(exported.remarks.at(0).find("sp=true"), std::string::npos);
}

TEST(Export, AccelerateChoosesAnEngine) {
  auto config = [](const char *strategy, int64_t ranks) {
    return YAML::Load(textOf(target("accelerate").write(jobOf(strategy, ranks)),
                             "accelerate.yaml"));
  };
  EXPECT_EQ(config("dp=4", 4)["distributed_type"].as<std::string>(),
            "MULTI_GPU");
  EXPECT_EQ(config("dp=4,zero=1", 4)["distributed_type"].as<std::string>(),
            "DEEPSPEED");
  YAML::Node fsdp = config("dp=2,tp=2,zero=3", 4);
  EXPECT_EQ(fsdp["distributed_type"].as<std::string>(), "FSDP");
  EXPECT_EQ(fsdp["parallelism_config"]["parallelism_config_tp_size"].as<int>(),
            2);
  YAML::Node megatron = config("dp=2,pp=2,tp=2,zero=1,micro_batch=4", 8);
  EXPECT_EQ(megatron["megatron_lm_config"]["megatron_lm_pp_degree"].as<int>(),
            2);
  EXPECT_EQ(
      megatron["megatron_lm_config"]["megatron_lm_num_micro_batches"].as<int>(),
      8);
}

TEST(Export, ColossalAiChoosesAPlugin) {
  auto config = [](const char *strategy, int64_t ranks) {
    return jsonOf("colossalai", jobOf(strategy, ranks), "colossalai.json");
  };
  EXPECT_EQ(config("dp=4,zero=2", 4)["plugin"], "LowLevelZeroPlugin");
  EXPECT_EQ(config("dp=2,tp=2,zero=3", 4)["plugin"], "GeminiPlugin");
  auto hybrid = config("dp=2,tp=2,pp=2,sp=true,zero=1,micro_batch=4", 8);
  EXPECT_EQ(hybrid["plugin"], "HybridParallelPlugin");
  EXPECT_EQ(hybrid["kwargs"]["sequence_parallelism_mode"], "split_gather");
  EXPECT_EQ(hybrid["kwargs"]["microbatch_size"], 4);
  EXPECT_EQ(hybrid["kwargs"]["dp_outside"], false);
}

TEST(Export, GalvatronSaysItOfEveryLayer) {
  Job job = jobOf("dp=2,tp=2,pp=2,zero=3,micro_batch=4", 8);
  job.model.layers = 5;
  job.stageLayers = {2, 3};
  auto config = jsonOf("galvatron", job, "galvatron.json");
  EXPECT_EQ(config["tp_sizes_enc"], "2,2,2,2,2");
  EXPECT_EQ(config["dp_types_enc"], "1,1,1,1,1");
  EXPECT_EQ(config["pp_division"], "2,3");
  EXPECT_EQ(config["chunks"], 8);
  EXPECT_EQ(config["pipeline_type"], "pipedream_flush");
}

TEST(Export, CalculonExecution) {
  Job job = jobOf("dp=2,tp=4,pp=2,vpp=3,sp=true,zero=1,micro_batch=2", 16);
  auto execution = jsonOf("calculon", job, "calculon-execution.json");
  EXPECT_EQ(execution["num_procs"], 16);
  EXPECT_EQ(execution["pipeline_interleaving"], 3);
  EXPECT_EQ(execution["tensor_par_comm_type"], "rs_ag");
  EXPECT_EQ(execution["data_par_net"], 1);
  EXPECT_EQ(execution["optimizer_sharding"], true);
  job.model = {};
  EXPECT_NE(legalityOf("calculon", job).rule.find("transformers"),
            std::string::npos);
}

/// Returns jobs that each change one setting, with the words that a remark uses
/// for the setting.
static std::vector<std::pair<std::string, Job>> jobsWithSettings() {
  Job job = jobOf("dp=4,zero=3", 4);
  std::vector<std::pair<std::string, Job>> jobs;
  auto vary = [&](const char *name, auto change) {
    jobs.emplace_back(name, job);
    change(jobs.back().second);
  };
  vary("weight_decay=0.25", [](Job &j) { j.optimizer.weightDecay = 0.25; });
  vary("SGD", [](Job &j) { j.optimizer.name = "sgd"; });
  vary("--clip-grad-norm=7", [](Job &j) { j.optimizer.clipGradNorm = 7; });
  vary("--lr-schedule=cosine,warmup=5,total=50,min=0.0001",
       [](Job &j) { j.schedule = {"cosine", 5, 50, 1e-4}; });
  vary("--lr-schedule=linear,total=50",
       [](Job &j) { j.schedule = {"linear", 0, 50, 0}; });
  vary("--lr-schedule=linear,warmup=5,total=50,min=0.0001",
       [](Job &j) { j.schedule = {"linear", 5, 50, 1e-4}; });
  vary("--lr-schedule=constant,warmup=5",
       [](Job &j) { j.schedule = {"constant", 5, 0, 0}; });
  vary("--loss-scale=1024", [](Job &j) { j.lossScale = {true, 1024, 0}; });
  vary("--loss-scale=dynamic,init=1024,interval=100", [](Job &j) {
    j.precision = "fp16";
    j.lossScale = {true, 1024, 100};
  });
  vary("--frozen=wte.*", [](Job &j) { j.frozen = {"wte.*"}; });
  return jobs;
}

static std::string allOf(const Exported &exported) {
  std::string text;
  for (const ExportedFile &file : exported.files)
    text += file.text;
  for (const std::string &remark : exported.remarks)
    text += remark;
  return text;
}

/// For each setting, each target writes a key or a remark.
TEST(Export, EverySettingIsWrittenOrSaidNotToBe) {
  Job plain = jobOf("dp=4,zero=3", 4);
  for (const Target &each : targets())
    for (const auto &[name, job] : jobsWithSettings()) {
      SCOPED_TRACE(std::string(each.name) + " " + name);
      Job base = withModelFor(each.name, plain);
      base.precision = job.precision;
      Exported exported = each.write(withModelFor(each.name, job));
      EXPECT_NE(allOf(exported), allOf(each.write(base)));
      std::string remarks;
      for (const std::string &remark : exported.remarks)
        remarks += remark;
      bool isSaid = remarks.find(name) != std::string::npos;
      // Only remarks mention --frozen. Galvatron has a key for none of the
      // settings.
      if (name.starts_with("--frozen") || each.name == "galvatron") {
        EXPECT_TRUE(isSaid) << remarks;
      }
    }
}

TEST(Export, SchedulesAndScalesInTheWordsOfEach) {
  Job job = jobOf("dp=4,zero=1", 4);
  job.precision = "fp16";
  job.schedule = {"cosine", 5, 50, 1e-4};
  job.lossScale = {true, 1024, 100};
  std::string text = textOf(target("megatron").write(job), "megatron.sh");
  for (const char *flag :
       {"--lr-decay-style cosine", "--lr-warmup-iters 5", "--lr-decay-iters 50",
        "--min-lr 0.0001", "--initial-loss-scale 1024",
        "--loss-scale-window 100", "--hysteresis 1"})
    EXPECT_NE(text.find(flag), std::string::npos) << flag << "\n" << text;
  auto config = jsonOf("deepspeed", job, "ds_config.json");
  EXPECT_EQ(config["scheduler"]["type"], "WarmupCosineLR");
  EXPECT_DOUBLE_EQ(config["scheduler"]["params"]["cos_min_ratio"], 0.1);
  EXPECT_EQ(config["scheduler"]["params"]["warmup_num_steps"], 5);
  EXPECT_EQ(config["fp16"]["initial_scale_power"], 10);
  EXPECT_EQ(config["fp16"]["hysteresis"], 1);
  std::vector<std::string> remarks = target("deepspeed").write(job).remarks;
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(
      remarks[0].find("in the first 6 steps, the learning rates of DeepSpeed"),
      std::string::npos);
  job.lossScale.interval = 0;
  EXPECT_EQ(jsonOf("deepspeed", job, "ds_config.json")["fp16"]["loss_scale"],
            1024);
  auto plugin = jsonOf("colossalai", job, "colossalai.json")["kwargs"];
  EXPECT_EQ(plugin["min_scale"], 1024);
  EXPECT_EQ(plugin["max_scale"], 1024);
}

/// DeepSpeed rounds initial dynamic loss scales to powers of two, and needs at
/// least three steps of warmup for the rates that dpc has after it.
TEST(Export, DeepSpeedSaysWhatItRounds) {
  Job job = jobOf("dp=4,zero=1", 4);
  job.precision = "fp16";
  job.lossScale = {true, 1000, 100};
  auto remarks = [&] {
    std::string text;
    for (const std::string &remark : target("deepspeed").write(job).remarks)
      text += remark + "\n";
    return text;
  };
  EXPECT_NE(remarks().find("--loss-scale=dynamic,init=1000"),
            std::string::npos);
  auto config = jsonOf("deepspeed", job, "ds_config.json");
  EXPECT_FALSE(config["fp16"].contains("initial_scale_power"));
  job.lossScale = {true, 1000, 0}; // a fixed scale is not rounded
  EXPECT_EQ(remarks(), "");
  for (const char *kind : {"constant", "linear", "cosine"})
    for (int64_t warmup : {0, 2, 3}) {
      job.schedule = {kind, warmup, 50, 0};
      bool isWritten =
          jsonOf("deepspeed", job, "ds_config.json").contains("scheduler");
      EXPECT_EQ(isWritten, warmup == 3) << kind << warmup;
      EXPECT_EQ(remarks().find("learning rates of") != std::string::npos,
                isWritten);
      EXPECT_EQ(remarks().find("not expressed") == std::string::npos,
                isWritten || job.schedule.isPlain())
          << kind << warmup << remarks();
    }
}

/// The files override the targets' defaults: torchtitan clips to 1 and decays
/// the learning rate to 0, and Megatron-LM decays the learning rate.
TEST(Export, DefaultsOfOthersAreNotTaken) {
  Job job = jobOf("dp=4,zero=3", 4);
  job.optimizer.clipGradNorm = 0;
  Exported exported = target("torchtitan").write(job);
  toml::table config = toml::parse(textOf(exported, "torchtitan.toml"));
  EXPECT_TRUE(std::isinf(*config["training"]["max_norm"].value<double>()));
  EXPECT_EQ(config["lr_scheduler"]["warmup_steps"].value<int>(), 0);
  EXPECT_EQ(config["lr_scheduler"]["decay_ratio"].value<double>(), 0.0);
  std::string recipe = textOf(exported, "torchtitan.py");
  for (const char *words : {"max_norm=float(\"inf\"),", "decay_ratio=0",
                            "\"lr\": 0.001", "\"betas\": (0.9, 0.95)"})
    EXPECT_NE(recipe.find(words), std::string::npos) << words << recipe;
  EXPECT_NE(textOf(target("megatron").write(job), "megatron.sh")
                .find("--lr-decay-style constant"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Import
//===----------------------------------------------------------------------===//
