//===- ValidateTest.cpp - Published runs as input of dpc ------------------===//
#include "tools/replay/Network.h"
#include "tools/replay/Run.h"
#include "tools/replay/Score.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dpc;
using namespace dpc::validate;

namespace {

class TableTest : public ::testing::Test {
protected:
  void SetUp() override {
    file = std::filesystem::temp_directory_path() /
           ("validate-test-" + std::to_string(::getpid()) + ".csv");
  }
  void TearDown() override { std::filesystem::remove(file); }

  Expected<std::vector<Row>> read(const std::string &text) {
    std::ofstream(file) << text;
    return readTable(file, {"id"});
  }
  std::string whyNot(const std::string &text) {
    auto rows = read(text);
    return rows ? "" : rows.message().substr(file.string().size());
  }

  std::filesystem::path file;
};

} // namespace

TEST_F(TableTest, CellsByColumn) {
  auto rows = read("id,size,notes\na-1, 12 ,\"x, \"\"y\"\"\nz\"\n\nb-2,1.5,\n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2U);
  const Row &row = rows->front();
  EXPECT_EQ(row.at("notes"), "x, \"y\"\nz");
  EXPECT_EQ(row.integer("size"), 12);
  EXPECT_EQ((*rows)[1].integer("size"), std::nullopt);
  EXPECT_EQ((*rows)[1].number("size"), 1.5);
  EXPECT_TRUE((*rows)[1].isEmpty("notes"));
  EXPECT_EQ(row.at("nothing"), "");
}

TEST_F(TableTest, BadFilesAreRefused) {
  EXPECT_EQ(whyNot("name\na\n"), ": has no column 'id'");
  EXPECT_EQ(whyNot("id,x\na\n"), ": row 2 has 1 cells, the header 2");
  EXPECT_EQ(whyNot("id\n\"a\n").substr(0, 16), ": not a CSV file");
  EXPECT_EQ(whyNot(""), ": has no column 'id'");
  EXPECT_EQ(readTable("/no/such.csv", {}).message(),
            "/no/such.csv: cannot be read; expected a CSV file");
}

TEST(NetworkTest, BytesPerSecondOfAGpu) {
  auto rate = [](const char *text, int64_t gpusPerNode = 8) {
    auto level = parseNetwork(text, gpusPerNode);
    return level ? level->bytesPerSecond / 1e9 : -1.0;
  };
  EXPECT_DOUBLE_EQ(rate("8x200Gb HDR IB per 8-GPU node (Selene/DGX A100)"), 25);
  EXPECT_DOUBLE_EQ(rate("4x100Gb Omni-Path per 8-GPU node"), 6.25);
  EXPECT_DOUBLE_EQ(rate("4x100Gb Omni-Path per 4-GPU node"), 12.5);
  EXPECT_DOUBLE_EQ(rate("4x100Gb RoCE per node"), 6.25);
  EXPECT_DOUBLE_EQ(rate("4x100Gb RoCE per node", 4), 12.5);
  EXPECT_DOUBLE_EQ(rate("1600Gb/s RoCE per node"), 25);
  EXPECT_DOUBLE_EQ(rate("800Gb/s per node (vTrain config)"), 12.5);
  EXPECT_DOUBLE_EQ(rate("8x400Gb NDR IB per 8-GPU node (DGX H100)"), 50);
  EXPECT_DOUBLE_EQ(rate("400Gb/s RoCE per GPU"), 50);
  EXPECT_DOUBLE_EQ(rate("25Gb/s per node (p3.16xlarge)"), 0.390625);
  EXPECT_DOUBLE_EQ(rate("3.2Tb/s EFA per node"), 50);
  EXPECT_DOUBLE_EQ(rate("EFA, 3200 Gbps per node"), 50);
  EXPECT_DOUBLE_EQ(rate("NVL72 and 50 GB/s per GPU"), 50);
  EXPECT_DOUBLE_EQ(rate("NVL72; 4x400Gb NDR IB per tray", 4), 50);
  EXPECT_EQ(rate("fast"), -1);
  EXPECT_EQ(rate("0Gb per node"), -1);
  EXPECT_EQ(rate("100Gb"), -1);
}

TEST(NetworkTest, DevicesByTheNamesOfTables) {
  auto name = [](const char *gpu) {
    auto device = findDevice(gpu);
    return device ? device->name : device.message();
  };
  EXPECT_EQ(name("A100-80GB-SXM"), "a100-sxm-80gb");
  EXPECT_EQ(name("A100-SXM"), "a100-sxm-80gb");
  EXPECT_EQ(name("A100-SXM4-40GB"), "a100-sxm-40gb");
  EXPECT_EQ(name("A100-40GB-SXM (DGX-A100 2020)"), "a100-sxm-40gb");
  EXPECT_EQ(name("V100-16GB-SXM2 (p3.16xlarge)"), "v100-sxm2-16gb");
  EXPECT_EQ(name("H200-141GB-SXM"), "h200-sxm-141gb");
  EXPECT_EQ(name("H100-80GB"), "h100-sxm-80gb");
  EXPECT_EQ(name("H100-SXM"), "h100-sxm-80gb");
  EXPECT_EQ(name("H100-96GB 500 W"), "h100-sxm-96gb");
  EXPECT_EQ(name("A800-80GB"), "a800-sxm-80gb");
  EXPECT_EQ(name("B200"), "b200-sxm-180gb");
  EXPECT_EQ(name("B200-192GB"), "b200-sxm-180gb");
  EXPECT_EQ(name("B300"), "b300-sxm-288gb");
  EXPECT_EQ(name("GB200"), "gb200-nvl72-186gb");
  EXPECT_EQ(name("GB300 (NVL72)"), "gb300-nvl72-288gb");
  EXPECT_EQ(name("MI300X"), "no device file for GPU 'MI300X'");
  EXPECT_EQ(name("A100-13GB"), "no device file for GPU 'A100-13GB'");
}

TEST(NetworkTest, LevelsOfAClusterSpanItsGpus) {
  auto cluster = clusterOf("A100-80GB-SXM", 64, 8, "800Gb/s per node");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->numDevices(), 64);
  ASSERT_EQ(cluster->levels.size(), 2U);
  EXPECT_EQ(cluster->levels[0].span, 8);
  EXPECT_DOUBLE_EQ(cluster->levels[0].bytesPerSecond, 300e9);
  EXPECT_FALSE(cluster->levels[0].inNetworkReduction);
  EXPECT_EQ(cluster->levels[1].span, 64);
  // A cluster with only a part of one node needs no network.
  auto part = clusterOf("H100-80GB", 6, 8, "");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->devicesPerNode(), 6);
  ASSERT_EQ(part->levels.size(), 1U);
  EXPECT_TRUE(part->levels[0].inNetworkReduction);
  EXPECT_EQ(clusterOf("A100-SXM", 64, 8, "").message(),
            "the network between nodes is not stated");
  EXPECT_EQ(clusterOf("A100-SXM", 12, 8, "").message(),
            "12 GPUs do not fill nodes of 8");
}

TEST(NetworkTest, RacksAreOneDomain) {
  auto cluster = clusterOf("GB200", 144, 4, "4x400Gb per 4-GPU node");
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_EQ(cluster->levels[0].span, 72);
  EXPECT_EQ(cluster->levels[1].span, 144);
  EXPECT_DOUBLE_EQ(cluster->levels[1].bytesPerSecond, 50e9);
}

TEST(NetworkTest, PartsOfRacksAreDomains) {
  // 32 trays of 4 GPUs: two racks give 16 each. 25 trays: 5 racks give 5.
  for (auto [gpus, domain] :
       {std::pair(128, 64), {100, 20}, {64, 64}, {72, 72}}) {
    auto cluster = clusterOf("GB300", gpus, 4, "NVL72 domain");
    ASSERT_TRUE(cluster) << cluster.message();
    EXPECT_EQ(cluster->levels[0].span, domain) << gpus;
  }
  // Each GPU of these systems has the same network card.
  for (auto [gpu, bytes] : {std::pair("GB200", 50e9), {"GB300", 100e9}})
    EXPECT_DOUBLE_EQ(
        clusterOf(gpu, 128, 4, "NVL72 domain")->levels[1].bytesPerSecond,
        bytes);
  EXPECT_FALSE(clusterOf("H100-SXM", 128, 8, "NVLink domain"));
  EXPECT_FALSE(clusterOf("GB200", 128, 4, "2x200Gb RoCE"));
}

TEST(NetworkTest, ExamplesOfClustersLoad) {
  int64_t files = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator("examples/clusters")) {
    auto cluster = cost::loadCluster(entry.path().string());
    EXPECT_TRUE(cluster) << cluster.message();
    ++files;
  }
  EXPECT_GE(files, 7);
}

namespace {

/// Row sc21t1-0010: 1T parameters on 3,072 A100, with 163 TFLOP/s per GPU
/// including recomputation.
Row rowOf(const std::map<std::string, std::string> &changes = {}) {
  Row row;
  row.cells = {{"id", "sc21t1-0010"},
               {"model_family", "gpt"},
               {"layers", "128"},
               {"hidden", "25600"},
               {"ffn_hidden", "102400"},
               {"heads", "160"},
               {"kv_heads", "160"},
               {"vocab", "51200"},
               {"seq_len", "2048"},
               {"gpu", "A100-80GB-SXM"},
               {"num_gpus", "3072"},
               {"gpus_per_node", "8"},
               {"inter_node_net", "8x200Gb HDR IB per 8-GPU node"},
               {"tp", "8"},
               {"pp", "64"},
               {"dp", "6"},
               {"sequence_parallel", "no"},
               {"zero_or_fsdp_stage", "0"},
               {"recompute", "full"},
               {"precision", "fp16"},
               {"micro_batch", "1"},
               {"global_batch", "3072"},
               {"measured_kind", "tflops_per_gpu"},
               {"measured_value", "163"},
               {"notes", "spec=full; TFLOPs incl. recompute"}};
  for (const auto &[column, cell] : changes)
    row.cells[column] = cell;
  return row;
}

PublishedRun runWith(const std::map<std::string, std::string> &changes = {}) {
  auto run = runOf(rowOf(changes));
  EXPECT_TRUE(run) << run.message();
  return run ? *run : PublishedRun{};
}

std::string leftOut(const std::map<std::string, std::string> &changes) {
  auto run = runOf(rowOf(changes));
  return run ? "" : run.message();
}

} // namespace

TEST(RunTest, ColumnsBecomeModelStrategyAndSeconds) {
  PublishedRun run = runWith();
  EXPECT_EQ(run.source, "sc21t1");
  EXPECT_EQ(run.dims.family, model::Family::gpt);
  EXPECT_EQ(cost::stringifyStrategy(run.strategy),
            "dp=6,tp=8,pp=64,recompute=full,micro_batch=1");
  EXPECT_EQ(run.cluster.software.name, "megatron-2021");
  // The formula of the publication: F = 96 B s l h^2 (1 + s / 6h + V / 16lh).
  double flops = 96.0 * 3072 * 2048 * 128 * 25600 * 25600 *
                 (1 + 2048 / (6.0 * 25600) + 51200 / (16.0 * 128 * 25600));
  EXPECT_NEAR(run.measuredSeconds, flops / (163e12 * 3072), 1e-6);
}

TEST(RunTest, WithOwnMemoryOnlyMemoryDiffers) {
  PublishedRun run = runWith(), own = withOwnMemory(run);
  EXPECT_TRUE(run.cluster.software.keepsMemory);
  EXPECT_FALSE(own.cluster.software.keepsMemory);
  EXPECT_EQ(own.cluster.software.gemmRate, run.cluster.software.gemmRate);
  EXPECT_EQ(own.programKey(), run.programKey());
  EXPECT_NE(own.clusterKey(), run.clusterKey());
}

TEST(RunTest, MeasuredKinds) {
  auto seconds = [](const char *kind, const char *value) {
    return runWith({{"measured_kind", kind}, {"measured_value", value}})
        .measuredSeconds;
  };
  EXPECT_DOUBLE_EQ(seconds("iter_seconds", "12.5"), 12.5);
  EXPECT_DOUBLE_EQ(seconds("tokens_per_s_per_gpu", "2048"), 1.0);
  EXPECT_DOUBLE_EQ(seconds("tokens_per_s", "6291456"), 1.0);
  PublishedRun memory =
      runWith({{"measured_kind", "peak_mem_gib"}, {"measured_value", "56"}});
  EXPECT_EQ(memory.measuredSeconds, 0);
  EXPECT_DOUBLE_EQ(memory.measuredMemoryBytes, 56.0 * (1 << 30));
}

TEST(RunTest, AllocatedMemoryIsThatOfTensors) {
  PublishedRun all = runWith({{"peak_mem_gib", "56"}});
  EXPECT_GT(all.cluster.software.reservedBytes, 0);
  PublishedRun run =
      runWith({{"peak_mem_gib", "56"}, {"memory_allocated_gib", "50"}});
  EXPECT_DOUBLE_EQ(run.measuredMemoryBytes, 50.0 * (1 << 30));
  EXPECT_EQ(run.cluster.software.reservedBytes, 0);
  EXPECT_EQ(run.cluster.software.activationSlack, 1);
  EXPECT_NE(run.clusterKey(), all.clusterKey());
}

TEST(RunTest, WhatColumnsLeaveOpen) {
  // Megatron-LM pads the vocabulary, FSDP does not.
  EXPECT_EQ(runWith({{"vocab", "50257"}}).dims.vocab, 51200);
  EXPECT_EQ(runWith({{"source_title", "MPT"}, {"vocab", "50257"}}).dims.vocab,
            50257);
  EXPECT_EQ(runWith({{"notes", "spec=full; ALiBi"}}).dims.family,
            model::Family::bloom);
  auto softwareOf = [](const std::map<std::string, std::string> &changes) {
    return runWith(changes).cluster.software.name;
  };
  EXPECT_EQ(softwareOf({{"source_title", "Korthikanti et al. 2022"}}),
            "megatron-2022");
  EXPECT_EQ(softwareOf({{"source_title", "A paper (arXiv 2205.05198)"}}),
            "megatron-2022");
  EXPECT_EQ(softwareOf({{"recompute", "selective"}}), "megatron-2022");
  EXPECT_EQ(softwareOf({{"notes", "spec=full; FSDP"}}), "pytorch-fsdp-2024");
  EXPECT_EQ(softwareOf({{"source_title", "MPT"}, {"notes", "spec=full; FSDP"}}),
            "pytorch-fsdp-2023");
  EXPECT_EQ(softwareOf({{"notes", "spec=full; Megatron-DeepSpeed"},
                        {"zero_or_fsdp_stage", "1"}}),
            "megatron-deepspeed-2022");
  EXPECT_EQ(softwareOf({{"notes", "spec=full; Megatron-DeepSpeed"},
                        {"zero_or_fsdp_stage", ""}}),
            "megatron-eager");
  for (const char *words : {"NeMo 24.07", "Megatron-Bridge, 26.08 container"})
    EXPECT_EQ(softwareOf({{"source_title", words}}), "megatron-core-2025");
  EXPECT_EQ(softwareOf({{"framework", "Megatron-LM 23e00ed, TE 2.11"}}),
            "megatron-core-2025");
  EXPECT_EQ(softwareOf({{"source_title", "InternEvo"}}), "internevo-2023");
  EXPECT_EQ(softwareOf({{"source_title", "Alpa README"}}), "alpa-2022");
  EXPECT_EQ(softwareOf({{"notes", "spec=full; no FlashAttention"}}),
            "megatron-2021");
  EXPECT_EQ(
      softwareOf({{"id", "new-1"}, {"notes", "spec=full; FlashAttention"}}),
      "megatron-core-2024");
  EXPECT_EQ(softwareOf({{"id", "new-1"}, {"gpu", "H100-80GB"}}),
            "megatron-core-2024");
  EXPECT_EQ(runWith({{"zero_or_fsdp_stage", ""}}).strategy.zero, 0);
  PublishedRun grouped = runWith({{"zero_or_fsdp_stage", "1 (group of 2)"}});
  EXPECT_EQ(grouped.strategy.zero, 1);
  EXPECT_EQ(grouped.strategy.hybridShard, 2);
  PublishedRun whole = runWith({{"zero_or_fsdp_stage", "3 (fsdp)"}});
  EXPECT_EQ(whole.strategy.zero, 3);
  EXPECT_EQ(whole.strategy.hybridShard, 1);
  PublishedRun hybrid = runWith({{"tp", "1"},
                                 {"pp", "1"},
                                 {"dp", "3072"},
                                 {"zero_or_fsdp_stage", "HSDP"}});
  EXPECT_EQ(hybrid.strategy.zero, 3);
  EXPECT_EQ(hybrid.strategy.hybridShard, 8);
  EXPECT_EQ(runWith({{"recompute", "selective (op)"}}).strategy.recompute,
            cost::Recompute::Selective);
  EXPECT_EQ(runWith({{"vpp", "2"}}).strategy.schedule,
            cost::ScheduleKind::Interleaved);
}

TEST(RunTest, RowsAreLeftOutWithAReason) {
  EXPECT_EQ(leftOut({{"notes", "spec=partial(missing:tp)"}}),
            "the notes do not begin with spec=full");
  EXPECT_EQ(leftOut({{"layers", ""}}), "layers is not stated");
  EXPECT_EQ(leftOut({{"tp", "two"}}), "tp is not a positive number");
  EXPECT_EQ(leftOut({{"dp", "5"}}),
            "the product of the degrees is not the number of GPUs");
  EXPECT_EQ(leftOut({{"recompute", ""}}), "recompute is not stated");
  EXPECT_EQ(leftOut({{"precision", "int4"}}),
            "precision 'int4' cannot be planned");
  EXPECT_EQ(leftOut({{"notes", "spec=full; LoRA rank 16"}}),
            "adapters of a frozen model (LoRA) are not predicted");
  EXPECT_EQ(leftOut({{"zero_or_fsdp_stage", "7"}}),
            "ZeRO stage '7' is not understood");
  EXPECT_EQ(leftOut({{"measured_value", "-1"}}),
            "measured_value is not a positive number");
  EXPECT_EQ(leftOut({{"heads", "7"}}),
            "dims are refused: --heads=7: must divide --hidden=25600, unless "
            "--head-dim is given");
  EXPECT_EQ(leftOut({{"model_family", "rnn"}}),
            "model family 'rnn' is not gpt, llama, qwen or moe");
  EXPECT_EQ(leftOut({{"model_family", "moe"}}),
            "the sizes of the mixture are not stated");
  EXPECT_EQ(leftOut({{"model_family", "llama"}, {"attention", "mla"}}),
            "the sizes of latent attention are not stated");
}

static model::ModelDims
dimsWith(const std::map<std::string, std::string> &changes) {
  auto dims = dimsOf(rowOf(changes), 1);
  EXPECT_TRUE(dims) << dims.message();
  return dims ? *dims : model::ModelDims{};
}

TEST(RunTest, MixturesAreReadFromNotesAndColumns) {
  // The model has no preset: the notes state its sizes.
  model::ModelDims noted =
      dimsWith({{"model_family", "moe"},
                {"notes", "spec=full; a model; moe E=64 top6 +2 shared, "
                          "moe_ffn=1408 head_dim=192, first 1 layers dense"}});
  EXPECT_EQ(noted.family, model::Family::moe);
  EXPECT_EQ(noted.experts, 64);
  EXPECT_EQ(noted.topk, 6);
  EXPECT_EQ(noted.sharedExperts, 2);
  EXPECT_EQ(noted.expertFfn, 1408);
  EXPECT_EQ(noted.headDim, 192);
  EXPECT_EQ(noted.denseLayers, 1);
  EXPECT_EQ(noted.capacity, 0);
  // Columns take precedence over the model with this name, which has the rest.
  model::ModelDims cut = dimsWith({{"model_family", "moe"},
                                   {"model", "deepseekv3-4L"},
                                   {"heads", "128"},
                                   {"kv_heads", ""},
                                   {"attention", "mla"},
                                   {"experts", "32"},
                                   {"dense_layers", "1"},
                                   {"mtp", "1"}});
  EXPECT_EQ(cut.experts, 32);
  EXPECT_EQ(cut.topk, 8);
  EXPECT_EQ(cut.kvRank, 512);
  EXPECT_EQ(cut.ropeDim, 64);
  EXPECT_EQ(cut.denseLayers, 1);
  EXPECT_EQ(cut.furtherTokens, 1);
  EXPECT_EQ(dimsWith({{"model_family", "moe"},
                      {"notes", "spec=full; GPT OSS 120B; moe E=64"}})
                .window,
            128);
}

TEST(RunTest, WhatAMixtureLeavesOpenIsThePublishedModels) {
  model::ModelDims dims =
      dimsWith({{"model_family", "moe"},
                {"notes", "spec=full; Qwen3 30B A3B w/ MTP"},
                {"hidden", "2048"},
                {"heads", "32"},
                {"ffn_hidden", ""},
                {"kv_heads", ""}});
  EXPECT_EQ(dims.kvHeads, 4);
  EXPECT_EQ(dims.expertFfn, 768);
  EXPECT_EQ(dims.furtherTokens, 1);
  dims = dimsWith({{"model_family", "moe"},
                   {"model", "Mixtral"},
                   {"ffn_hidden", "14336"},
                   {"kv_heads", "8"}});
  EXPECT_EQ(dims.expertFfn, 14336);
}

TEST(RunTest, LlamasAreReadFromColumns) {
  model::ModelDims qwen = dimsWith(
      {{"model_family", "qwen"}, {"model", "qwen3-32b"}, {"head_dim", "128"}});
  EXPECT_EQ(qwen.family, model::Family::llama);
  EXPECT_TRUE(qwen.qkNorm);
  EXPECT_EQ(qwen.headDim, 128);
  EXPECT_FALSE(qwen.tied);
  auto isTied = [](const char *billions) {
    return dimsWith({{"model_family", "llama"},
                     {"params_b", billions},
                     {"notes", "spec=full; tied embeddings below 4B"}})
        .tied;
  };
  EXPECT_TRUE(isTied("1.3"));
  EXPECT_FALSE(isTied("8"));
  EXPECT_EQ(runWith({{"zero_or_fsdp_stage", "0/1"}}).strategy.zero, 1);
  EXPECT_EQ(runWith({{"precision", "fp8-cs"}}).precision, "fp8");
  // The notes name a column that was filled in.
  EXPECT_EQ(runWith({{"model_family", "llama"},
                     {"measured_kind", "iter_seconds"},
                     {"notes", "spec=full; assumed: zero_or_fsdp_stage=1"}})
                .cluster.software.name,
            "megatron-core-2024");
}

TEST(RunTest, TensorParallelOverlapIsThatOfTheRecipe) {
  auto overlaps = [](std::map<std::string, std::string> changes) {
    changes.merge(std::map<std::string, std::string>{
        {"source_title", "NeMo"}, {"sequence_parallel", "yes"}});
    return runWith(changes).strategy.tpOverlap == cost::TpOverlap::Chunked;
  };
  EXPECT_TRUE(overlaps({}));
  EXPECT_TRUE(overlaps({{"overlap", "tp-comm+grad-reduce"}}));
  EXPECT_FALSE(overlaps({{"overlap", "none"}}));
  EXPECT_FALSE(overlaps({{"sequence_parallel", "no"}}));
  EXPECT_FALSE(overlaps({{"source_title", "nanotron"}}));
}

TEST(RunTest, FlopsOfGatedModels) {
  // Llama 3 8B: 6 x the parameters of its GEMMs (all but the embedding and the
  // norms) and 12 l h s for the whole attention, per token.
  model::ModelDims dims = model::ModelDims::defaults(model::Family::llama);
  dims.complete();
  double weights = 8030261248.0 - 128256.0 * 4096 - 65 * 4096;
  EXPECT_NEAR(gemmFlops(dims, 2) / (2.0 * 8192),
              6 * weights + 12.0 * 32 * 4096 * 8192, 1e6);
  // Of DeepSeek-V3's 671 billion parameters, 37 compute a token, of which the
  // embedding has 0.93 (arXiv 2412.19437).
  for (const model::Preset &preset : model::presets())
    if (preset.name == "deepseek-v3") {
      dims = preset.dims;
      dims.complete();
      double attention = 6.0 * 61 * 4096 * 128 * (192 + 128);
      EXPECT_NEAR((gemmFlops(dims, 1) / 4096 - attention) / 6e9, 37 - 0.93,
                  0.6);
    }
}

TEST(ScoreTest, RankCorrelation) {
  EXPECT_DOUBLE_EQ(rankCorrelation({{1, 10}, {2, 20}, {3, 500}}), 1.0);
  EXPECT_DOUBLE_EQ(rankCorrelation({{1, 3}, {2, 2}, {3, 1}}), -1.0);
  EXPECT_DOUBLE_EQ(rankCorrelation({{1, 1}}), 0.0);
  // Equal values share a rank: 1, 2.5, 2.5, 4 against 1, 2, 3, 4 gives 4.5 /
  // sqrt(4.5 x 5).
  EXPECT_NEAR(rankCorrelation({{1, 1}, {2, 2}, {2, 3}, {3, 4}}), 0.948683,
              1e-6);
}

TEST(ScoreTest, ErrorsBySource) {
  auto row = [](const char *source, double measured, double predicted,
                double memory = 0, double held = 0, double planned = 0) {
    Prediction p{"id", source, "", source, measured, predicted, memory};
    p.memory.bytes[0] = held;
    p.planMemory.bytes[0] = planned;
    return p;
  };
  auto scores = scoresOf({row("a", 10, 11), row("b", 1, 1, 100, 50, 20),
                          row("a", 10, 7), row("b", 0, 3, 100, 110, 90)});
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].source, "a");
  EXPECT_NEAR(scores[0].time.mean, 0.2, 1e-12);
  EXPECT_NEAR(scores[0].time.max, 0.3, 1e-12);
  EXPECT_EQ(scores[0].memory.rows, 0);
  EXPECT_EQ(scores[1].time.rows, 1);
  EXPECT_NEAR(scores[1].memory.mean, 0.3, 1e-12);
  EXPECT_NEAR(scores[1].planMemory.mean, 0.45, 1e-12);
  EXPECT_NEAR(scores[1].planMemory.max, 0.8, 1e-12);
  EXPECT_EQ(scores[2].source, "overall");
  EXPECT_EQ(scores[2].time.rows, 3);
}

TEST(ScoreTest, SweepsThatFindTheBest) {
  auto sweep = [](std::vector<double> predicted) {
    std::vector<Prediction> runs;
    runs.reserve(predicted.size());
    for (size_t i = 0; i < predicted.size(); ++i)
      runs.push_back(
          {"id", "a", "", "s", 1.0 + static_cast<double>(i), predicted[i]});
    return scoresOf(runs).front();
  };
  // Sweeps of three runs do not count, because a user would try all three.
  EXPECT_EQ(sweep({9, 1, 2}).sweeps, 0);
  EXPECT_EQ(sweep({3, 1, 2, 9}).sweeps, 1);
  EXPECT_EQ(sweep({3, 1, 2, 9}).bestFound, 1);
  EXPECT_EQ(sweep({4, 1, 2, 3}).bestFound, 0);
  EXPECT_NEAR(sweep({3, 1, 2, 9}).worstRank, 0.4, 1e-12);
  EXPECT_EQ(sweep({3, 1, 2, 9}).wellRanked, 0);
  EXPECT_EQ(sweep({3, 4, 5, 9}).wellRanked, 1);
}

TEST(ScoreTest, TheWorstSweepIsNamed) {
  std::vector<Prediction> runs;
  double number = 0;
  for (const char *key : {"first", "second", "third"})
    for (int i = 0; i < 4; ++i) {
      std::string id = key + std::to_string(i);
      bool isSwapped = key[0] == 's';
      double measured = ++number;
      runs.push_back(
          {id, "a", "", key, measured, isSwapped ? -measured : measured});
    }
  Score score = scoresOf(runs).front();
  EXPECT_EQ(score.sweeps, 3);
  EXPECT_EQ(score.wellRanked, 2);
  EXPECT_EQ(score.worstSweep, "second0");
  EXPECT_DOUBLE_EQ(score.worstRank, -1);
}

TEST(ScoreTest, PlotHasAPointForEveryTime) {
  std::string svg = scatterPlot({{"x<1", "a", "", "", 0.5, 40},
                                 {"y", "b", "", "", 2, 2},
                                 {"memory", "b", "", "", 0, 2, 1}});
  size_t points = 0;
  for (size_t at = svg.find("<title>"); at != std::string::npos;
       at = svg.find("<title>", at + 1))
    ++points;
  EXPECT_EQ(points, 2U);
  EXPECT_NE(svg.find("x&lt;1"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(scatterPlot({}).find("nan"), std::string::npos);
}
