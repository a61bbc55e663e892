//===- Run.cpp - A published run as input of dpc --------------------------===//
#include "tools/replay/Run.h"

#include "frontends/dims/StatedDims.h"
#include "tools/replay/Network.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <regex>
#include <sstream>

namespace dpc::validate {

using model::Family;
using model::ModelDims;

static constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

const std::vector<std::string> &runColumns() {
  static const std::vector<std::string> columns = [] {
    std::istringstream names(
        "id model_family layers hidden heads vocab seq_len gpu "
        "num_gpus gpus_per_node inter_node_net tp pp dp recompute "
        "precision micro_batch global_batch measured_kind "
        "measured_value notes");
    return std::vector<std::string>(std::istream_iterator<std::string>(names),
                                    {});
  }();
  return columns;
}

std::string PublishedRun::programKey() const {
  return model::stringifyDims(dims) + "," + std::to_string(globalBatch) + "," +
         precision;
}

std::string PublishedRun::clusterKey() const {
  std::string key = cluster.name + "," + cluster.software.name;
  for (const cost::Level &level : cluster.levels)
    key += "," + std::to_string(level.span) + "," +
           std::to_string(level.bytesPerSecond) + "," +
           std::to_string(level.latencySeconds);
  return key;
}

std::string PublishedRun::sweepKey() const {
  std::string key = source + "," + cluster.name + "," + precision;
  for (int64_t size :
       {dims.layers, dims.hidden, dims.heads, dims.seq, globalBatch})
    key += "," + std::to_string(size);
  return key;
}

PublishedRun withOwnMemory(const PublishedRun &run) {
  PublishedRun own = run;
  cost::Software software = run.cluster.software;
  software.name += " with the plan's memory"; // part of clusterKey
  software.keepsMemory = false;
  software.checkpoints = cost::Checkpoints::Planned;
  own.cluster.setSoftware(software);
  return own;
}

cost::Situation situationOf(const PublishedRun &run) {
  const cost::Device &device = run.cluster.groups.front().device;
  const cost::Strategy &strategy = run.strategy;
  return {.device = device.name,
          // "NAME (tensors)" and others are variants of NAME.
          .software = run.cluster.software.name.substr(
              0, run.cluster.software.name.find(" (")),
          .precision = run.precision,
          .capability = device.computeCapability,
          .ranks = strategy.ranks(),
          .isMixture = run.dims.experts > 1,
          .splitsTensors = strategy.tp > 1,
          .splitsLayers = strategy.pp > 1,
          .splitsSequence = strategy.cp > 1,
          .splitsExperts = strategy.ep > 1,
          .shardsParameters = strategy.zero == 3};
}

static std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return text;
}

static std::string wordsOf(const Row &row) {
  std::string text;
  for (const char *column :
       {"source_title", "source_url_or_repo_path", "framework", "overlap",
        "zero_or_fsdp_stage", "notes"})
    text += row.at(column) + "\n";
  // The notes name columns that were filled in.
  return lowered(
      std::regex_replace(text, std::regex("zero_or_fsdp_stage="), ""));
}

static std::string firstWord(const std::string &text) {
  return text.substr(0, text.find_first_of(" (,;"));
}

namespace {

class Reader : RowReader {
public:
  using RowReader::RowReader;
  Expected<PublishedRun> read();

private:
  PublishedRun run;

  void readModel();
  void readStrategy();
  void readZero();
  void readPrecision();
  void readOverlap();
  void readGraphs();
  void countTensorsAlone(double bytes);
  void readMeasured();
};

} // namespace

void Reader::readModel() {
  Expected<ModelDims> dims = dimsOf(row, run.strategy.tp);
  if (dims)
    run.dims = *dims;
  else
    fail(dims.message());
}

/// Reads cells such as "3", "1 (group of 8)", "3 (fsdp)" and "HSDP".
void Reader::readZero() {
  std::string text = lowered(row.at("zero_or_fsdp_stage"));
  auto has = [&](const char *word) {
    return text.find(word) != std::string::npos;
  };
  bool isHybrid = has("hsdp") || has("hybrid");
  if (text.empty())
    return;
  if (text == "0/1") // no difference on one rank
    run.strategy.zero = run.strategy.dp > 1 ? 1 : 0;
  else if (text[0] >= '0' && text[0] <= '3' &&
           (text.size() == 1 || text[1] == ' '))
    run.strategy.zero = text[0] - '0';
  else if (has("gradients and optimizer"))
    run.strategy.zero = 2;
  else if (isHybrid || has("fsdp"))
    run.strategy.zero = 3;
  else
    return fail("ZeRO stage '" + text + "' is not understood");
  int64_t ranks = isHybrid ? size("gpus_per_node", 8) : 0;
  if (size_t group = text.find("group of "); group != std::string::npos)
    std::from_chars(text.data() + group + 9, text.data() + text.size(), ranks);
  if (ranks > 1 && ranks < run.strategy.dp)
    run.strategy.hybridShard = ranks;
}

/// NVIDIA's recipes of NeMo and Megatron-Bridge overlap tensor-parallel
/// collectives with GEMMs where sequence parallelism allows it.
void Reader::readOverlap() {
  const std::string &stated = row.at("overlap");
  bool overlaps = stated.empty()
                      ? run.cluster.software.name == "megatron-core-2025"
                      : stated.find("tp-comm") != std::string::npos;
  if (overlaps && run.strategy.sp && run.cluster.software.tensorChunks > 1)
    run.strategy.tpOverlap = cost::TpOverlap::Chunked;
}

/// If a CUDA graph has the whole iteration, the host launches it at once.
void Reader::readGraphs() {
  if (row.at("cuda_graph") != "full-iteration")
    return;
  cost::Software software = run.cluster.software;
  software.name += " (CUDA graph)"; // part of clusterKey
  software.hostKernelSeconds = software.hostStepSeconds = 0;
  run.cluster.setSoftware(software);
}

/// "fp8", "fp8-cs" (current scaling) and "fp8-ds" (delayed scaling) have one
/// scale for each tensor.
void Reader::readPrecision() {
  run.precision = firstWord(row.at("precision"));
  if (run.precision == "fp8-cs" || run.precision == "fp8-ds")
    run.precision = "fp8";
  constexpr std::array kPlanned = {"fp32", "fp16", "bf16", "fp8"};
  if (std::ranges::find(kPlanned, run.precision) == kPlanned.end())
    fail("precision '" + row.at("precision") + "' cannot be planned");
}

void Reader::readStrategy() {
  cost::Strategy &s = run.strategy;
  s.dp = size("dp");
  s.tp = size("tp");
  s.pp = size("pp");
  s.vpp = size("vpp", 1);
  s.cp = size("cp", 1);
  s.ep = size("ep", 1);
  s.sp = row.at("sequence_parallel") == "yes" && s.tp > 1;
  s.schedule = s.vpp > 1 ? cost::ScheduleKind::Interleaved
                         : cost::ScheduleKind::OneFOneB;
  s.microBatch = size("micro_batch");
  std::string stated = firstWord(row.at("recompute"));
  if (auto recompute = symbolize<cost::Recompute>(stated))
    s.recompute = *recompute;
  else
    fail(stated.empty() ? "recompute is not stated"
                        : "recompute '" + row.at("recompute") + "' is unknown");
  readZero();
  if (error.empty() && s.ranks() != size("num_gpus"))
    fail("the product of the degrees is not the number of GPUs");
}

/// The bytes that PyTorch calls allocated are those of tensors.
void Reader::countTensorsAlone(double bytes) {
  run.measuredMemoryBytes = bytes;
  cost::Software software = run.cluster.software;
  software.name += " (tensors)"; // part of clusterKey
  software.activationSlack = 1;
  software.reservedBytes = 0;
  run.cluster.setSoftware(software);
}

void Reader::readMeasured() {
  const std::string &kind = row.at("measured_kind");
  std::optional<double> value = row.number("measured_value");
  if (!value || !(*value > 0))
    return fail("measured_value is not a positive number");
  auto gpus = static_cast<double>(run.cluster.numDevices());
  auto batch = static_cast<double>(run.globalBatch);
  double tokens = batch * static_cast<double>(run.dims.seq);
  if (kind == "iter_seconds")
    run.measuredSeconds = *value;
  else if (kind == "tokens_per_s_per_gpu")
    run.measuredSeconds = tokens / (*value * gpus);
  else if (kind == "tokens_per_s")
    run.measuredSeconds = tokens / *value;
  else if (kind == "tflops_per_gpu" && !run.dims.isGated())
    run.measuredSeconds =
        tableFlops(run.dims, batch,
                   run.strategy.recompute == cost::Recompute::Full ? 4 : 3) /
        (*value * 1e12 * gpus);
  else if (kind == "mfu")
    run.measuredSeconds =
        (run.dims.isGated() ? gemmFlops(run.dims, batch)
                            : tableFlops(run.dims, batch, 3)) /
        (*value * run.cluster.groups.front().device.peak(cost::DType::BF16) *
         gpus);
  else if (kind != "peak_mem_gib")
    return fail("measured_kind '" + kind + "' is not understood for " +
                row.at("model_family"));
  if (std::optional<double> memory = row.number("memory_allocated_gib"))
    countTensorsAlone(*memory * kGiB);
  else if (std::optional<double> memory = row.number("peak_mem_gib"))
    run.measuredMemoryBytes = *memory * kGiB;
  else if (kind == "peak_mem_gib")
    run.measuredMemoryBytes = *value * kGiB;
}

/// Returns the year in the title: "2022", an arXiv number ("2205.05198") or a
/// conference ("SC21"); 0 without a year.
static int yearOf(const Row &row) {
  static const std::regex forms(
      R"(\b(20[12]\d)\b|arXiv (\d\d)\d\d\.\d|[A-Z](2\d)\b)");
  std::smatch match;
  const std::string &title = row.at("source_title");
  if (!std::regex_search(title, match, forms))
    return 0;
  for (int group : {1, 2, 3})
    if (match[group].matched)
      return std::stoi(match[group].str()) + (group == 1 ? 0 : 2000);
  return 0;
}

static std::string softwareOf(const Row &row, const PublishedRun &run) {
  std::string words = wordsOf(row);
  auto has = [&](const char *word) {
    return words.find(word) != std::string::npos;
  };
  const std::string &gpu = row.at("gpu");
  bool isOlderGpu = gpu.starts_with("V100") || gpu.starts_with("A100") ||
                    gpu.starts_with("A800");
  if (has("internevo"))
    return "internevo-2023";
  if (has("alpa") && !has("megatron"))
    return "alpa-2022";
  if (has("fsdp"))
    return run.dims.family == Family::mpt ? "pytorch-fsdp-2023"
                                          : "pytorch-fsdp-2024";
  if (has("deepspeed") || has("zero3"))
    return run.strategy.zero > 0 ? "megatron-deepspeed-2022" : "megatron-eager";
  if (has("nemo") || has("megatron-bridge") || has(" te ") || has(" te\n"))
    return "megatron-core-2025";
  bool isFused = has("flashattention") && !has("no flashattention");
  if (isFused || !isOlderGpu ||
      (run.dims.family == Family::llama && !gpu.starts_with("V100")))
    return "megatron-core-2024";
  return run.strategy.sp ||
                 run.strategy.recompute == cost::Recompute::Selective ||
                 yearOf(row) >= 2022
             ? "megatron-2022"
             : "megatron-2021";
}

Expected<PublishedRun> Reader::read() {
  run.id = row.at("id");
  run.source = run.id.substr(0, run.id.rfind('-'));
  const std::string &notes = row.at("notes");
  if (!notes.starts_with("spec=full;") && notes != "spec=full")
    return Error{"the notes do not begin with spec=full"};
  readStrategy();
  readModel();
  run.globalBatch = size("global_batch");
  readPrecision();
  if (std::regex_search(notes, std::regex(R"(\bLoRA\b)")))
    fail("adapters of a frozen model (LoRA) are not predicted");
  if (!error.empty())
    return Error{error};
  Expected<cost::Cluster> cluster =
      clusterOf(row.at("gpu"), size("num_gpus"), size("gpus_per_node", 8),
                row.at("inter_node_net"));
  if (!cluster)
    return Error{cluster.message()};
  run.cluster = std::move(*cluster);
  Expected<cost::Software> software = cost::loadSoftware(softwareOf(row, run));
  if (!software)
    return Error{software.message()};
  run.cluster.setSoftware(*software);
  readOverlap();
  readGraphs();
  readMeasured();
  if (!error.empty())
    return Error{error};
  return std::move(run);
}

Expected<PublishedRun> runOf(const Row &row) { return Reader(row).read(); }

} // namespace dpc::validate
