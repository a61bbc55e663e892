//===- ReadTorchtitan.cpp - A strategy from torchtitan's configurations ---===//
//
// Reads TOML and flags such as --parallelism.tensor_parallel_degree, up to
// v0.2.2, and Python since 0.3. Defaults are those of
// torchtitan/config/job_config.py and configs.py.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

static constexpr std::string_view kSections[] = {
    "parallelism", "training", "activation_checkpoint", "model", "job"};

namespace {

class TorchtitanReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  int64_t replicas = 1;
  int64_t shards = -1; ///< -1: all ranks that are left.

  void refuseOthers();
  void readDegrees();
  void readSharding();
  void readStages();
  void readChunks();
  void readBatch();
  void readRecompute();
  void readPrecision();
};

} // namespace

void TorchtitanReader::refuseOthers() {
  if (has("job.config_file"))
    fail("job.config_file",
         "is another file; expected flags that state the whole strategy, or "
         "this file itself");
  if (has("parallelism.pipeline_parallel_split_points"))
    fail("parallelism.pipeline_parallel_split_points",
         "; expected pipeline_parallel_layers_per_stage, because dpc divides "
         "the layers itself");
}

void TorchtitanReader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  const std::string section = "parallelism.";
  int64_t tp = number(section + "tensor_parallel_degree", 1);
  int64_t pp = number(section + "pipeline_parallel_degree", 1);
  int64_t cp = number(section + "context_parallel_degree", 1);
  replicas = number(section + "data_parallel_replicate_degree", 1);
  shards = number(section + "data_parallel_shard_degree", -1, -1);
  if (shards > 0 && asked.keys.empty())
    setDevices(section + "data_parallel_shard_degree",
               replicas * shards * tp * pp * cp);
  setDegrees(tp, pp, cp);
  bool isPython = file.syntax == Syntax::Python;
  strategy.sp =
      strategy.tp > 1 &&
      (!isPython || isTrue(section + "enable_sequence_parallel", true));
  if (isTrue(section + "enable_async_tensor_parallel") && strategy.tp > 1)
    strategy.tpOverlap = cost::TpOverlap::Chunked;
  strategy.ep = number(section + "expert_parallel_degree", 1);
  checkExpertTensor(section + "expert_parallel_degree",
                    number(section + "expert_tensor_parallel_degree", 1));
}

/// FSDP shards over data_parallel_shard_degree times context_parallel_degree
/// ranks, and also shards the gradients between micro-batches.
void TorchtitanReader::readSharding() {
  cost::Strategy &strategy = result.strategy;
  const std::string section = "parallelism.";
  if (strategy.dp % replicas != 0)
    fail(section + "data_parallel_replicate_degree",
         "does not divide dp=" + std::to_string(strategy.dp));
  bool isSharded = shards < 0 ? strategy.dp > replicas : shards > 1;
  std::string reshard = word(section + "fsdp_reshard_after_forward", "default");
  if (reshard != "default" && reshard != "always" && reshard != "never")
    fail(section + "fsdp_reshard_after_forward",
         "; expected default, always or never");
  if (reshard == "default")
    reshard = strategy.pp > 1 ? "never" : "always";
  if (isSharded || strategy.cp > 1)
    strategy.zero = reshard == "always" ? 3 : 2;
  if (isSharded && replicas > 1)
    strategy.hybridShard = strategy.dp / replicas;
  if (!isSharded && strategy.cp > 1 && replicas > 1)
    refuse(section + "context_parallel_degree", "zero",
           "shards parameters over the context-parallel ranks only; expected "
           "data_parallel_shard_degree > 1");
  if (isTrue("training.enable_cpu_offload") && strategy.zero > 0)
    strategy.offload = cost::Offload::All;
}

/// Sets vpp, or the layers of a chunk, from which the number of layers of the
/// model gives vpp.
void TorchtitanReader::readChunks() {
  cost::Strategy &strategy = result.strategy;
  const std::string section = "parallelism.";
  constexpr int64_t kDefault = 2; // of schedules with several chunks
  result.chunks.each =
      number(section + "pipeline_parallel_layers_per_stage", 0);
  result.chunks.fewer =
      number(section + "pipeline_parallel_first_stage_less_layers", 1, 0) +
      number(section + "pipeline_parallel_last_stage_less_layers", 1, 0);
  if (result.chunks.each == 0)
    strategy.vpp = kDefault;
  const std::string parts = section + "module_fqns_per_model_part";
  const auto *names = find(parts);
  if (!names || !names->is_array())
    return;
  int64_t count = static_cast<int64_t>(names->size());
  if (count % strategy.pp != 0)
    fail(parts, "has " + std::to_string(count) +
                    " parts; expected a multiple of pp=" +
                    std::to_string(strategy.pp));
  strategy.vpp = count / strategy.pp;
  result.chunks = {};
}

void TorchtitanReader::readStages() {
  cost::Strategy &strategy = result.strategy;
  const std::string key = "parallelism.pipeline_parallel_schedule";
  std::string schedule = word(key, "1F1B");
  std::ranges::transform(schedule, schedule.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (schedule == "interleaved1f1b")
    strategy.schedule = cost::ScheduleKind::Interleaved;
  else if (schedule == "gpipe")
    strategy.schedule = cost::ScheduleKind::GPipe;
  else if (schedule != "1f1b" && strategy.pp > 1)
    refuse(key, "schedule", "; expected 1F1B, GPipe or Interleaved1F1B");
  if (strategy.pp == 1)
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  if (strategy.schedule == cost::ScheduleKind::Interleaved)
    readChunks();
  else
    useSection("parallelism.pipeline_parallel_layers_per_stage");
  if (has("parallelism.pipeline_parallel_schedule_csv") &&
      !word("parallelism.pipeline_parallel_schedule_csv").empty())
    refuse("parallelism.pipeline_parallel_schedule_csv", "schedule",
           "is a schedule of its own; expected pipeline_parallel_schedule");
}

/// Without a pipeline, the local batch is one micro-batch.
void TorchtitanReader::readBatch() {
  const cost::Strategy &strategy = result.strategy;
  const std::string micro = "parallelism.pipeline_parallel_microbatch_size";
  int64_t local = number("training.local_batch_size", 8);
  int64_t global = number("training.global_batch_size", -1, -1);
  setBatch(global > 0 ? global : local * strategy.dp,
           strategy.pp > 1 ? number(micro, 1) : local, 0);
  if (auto length = findNumber("training.seq_len"))
    result.sizes.push_back({"training.seq_len", *length, &ModelShape::sequence,
                            /*isOfTokens=*/true});
}

/// The default is selective recomputation of every second layer in TOML, and of
/// some ops in Python.
void TorchtitanReader::readRecompute() {
  const std::string section = "activation_checkpoint";
  bool isPython = file.syntax == Syntax::Python;
  const FileSetting *whole = file.find(section);
  if (isPython && whole) { // None, FullAC.Config() or SelectiveAC.Config()
    std::string kind = word(section, "none");
    if (kind.find("ActivationCheckpoint") == std::string::npos) {
      result.strategy.recompute = kind == "none" ? cost::Recompute::None
                                  : kind.find("FullAC") != std::string::npos
                                      ? cost::Recompute::Full
                                      : cost::Recompute::Selective;
      return;
    }
  }
  std::string mode = word(section + ".mode", "selective");
  std::string option =
      word(section + ".selective_ac_option", isPython ? "op" : "2");
  auto kind = symbolize<cost::Recompute>(mode);
  if (!kind) {
    refuse(section + ".mode", "recompute",
           "; expected none, selective or full");
    return;
  }
  result.strategy.recompute = *kind;
  if (*kind != cost::Recompute::Selective || option == "op")
    return;
  if (option == "1")
    result.strategy.recompute = cost::Recompute::Full;
  else
    refuse(section + ".selective_ac_option", "recompute",
           "recomputes one of " + option +
               " layers; expected \"op\", or "
               "mode=\"none\" or \"full\"");
}

void TorchtitanReader::readPrecision() {
  result.precision =
      word("training.mixed_precision_param", "bfloat16") == "float32" ? "fp32"
                                                                      : "bf16";
  if (word("training.dtype", "float32") != "float32")
    fail("training.dtype",
         "keeps weights and optimizer states in bf16; expected float32, "
         "because dpc keeps them in fp32");
  std::string converters = word("model.converters");
  if (converters.find("mx") != std::string::npos)
    fail("model.converters", "; expected float8 or no converter");
  if (converters.find("float8") != std::string::npos)
    result.precision = "fp8";
}

Expected<Imported> TorchtitanReader::read() {
  readTorchrun();
  for (auto step :
       {&TorchtitanReader::refuseOthers, &TorchtitanReader::readDegrees,
        &TorchtitanReader::readSharding, &TorchtitanReader::readStages,
        &TorchtitanReader::readBatch, &TorchtitanReader::readRecompute,
        &TorchtitanReader::readPrecision})
    if ((this->*step)(); !error.empty())
      return Error{error};
  return finish();
}

static bool isTorchtitan(const FileSettings &file) {
  if (file.syntax == Syntax::Json || file.syntax == Syntax::Yaml)
    return false;
  return std::ranges::any_of(file.settings, [](const FileSetting &setting) {
    return setting.key.find("parallelism.") != std::string::npos ||
           setting.key.find("training.local") != std::string::npos;
  });
}

/// Removes what stands before the section in a key: "config." in
/// config.parallelism.tensor_parallel_degree. Spells flags as in TOML.
static FileSettings withPlainKeys(FileSettings file) {
  for (FileSetting &setting : file.settings) {
    if (file.syntax == Syntax::Flags &&
        setting.key.find('.') != std::string::npos)
      std::ranges::replace(setting.key, '-', '_');
    for (std::string_view section : kSections)
      if (size_t at = setting.key.find("." + std::string(section) + ".");
          at != std::string::npos)
        setting.key.erase(0, at + 1);
  }
  return file;
}

const ReaderOf torchtitanReader = {
    "a torchtitan configuration", isTorchtitan,
    [](const FileSettings &file, const AskedStrategy &asked) {
      FileSettings plain = withPlainKeys(file);
      return TorchtitanReader(plain, asked).read();
    }};

} // namespace dpc::exports
