//===- ReadColossalAi.cpp - A strategy from plugins of Colossal-AI --------===//
//
// Reads the JSON that ColossalAi.cpp writes, and configurations of Open-Sora.
// Defaults are those of booster/plugin/*.py of colossalai 0.5.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/StrategyReader.h"

namespace dpc::exports {

namespace {

class ColossalAiReader : StrategyReader {
public:
  ColossalAiReader(const FileSettings &file, const AskedStrategy &asked)
      : StrategyReader(file, asked), isOpenSora(file.syntax == Syntax::Python),
        kwargs(isOpenSora ? "plugin_config." : "kwargs.") {}
  Expected<Imported> read();

private:
  bool isOpenSora;
  std::string kwargs; ///< The section of the plugin's arguments.

  void refuseOthers();
  void readHybrid();
  void readSequence();
  void readStages();
  void readLowLevelZero(int64_t stage);
  void readGemini();
  void readCopies();
  /// 0 or 1; any other share is refused.
  bool isOffloaded(const std::string &key);
  void readBatch();
};

} // namespace

void ColossalAiReader::refuseOthers() {
  for (const char *key : {"fp8_communication", "use_fp8"})
    if (isTrue(kwargs + key))
      fail(kwargs + key, "has no key of --strategy; expected false");
  if (has(kwargs + "gradient_checkpoint_config"))
    refuse(kwargs + "gradient_checkpoint_config", "recompute",
           "recomputes some layers only");
  if (number(kwargs + "inner_ring_size", 1) > 1)
    refuse(kwargs + "inner_ring_size", "cp_kind",
           "divides the ring of ranks into rings; expected 1");
}

void ColossalAiReader::readSequence() {
  cost::Strategy &strategy = result.strategy;
  if (!isTrue(kwargs + "enable_sequence_parallelism"))
    return;
  std::string mode = word(kwargs + "sequence_parallelism_mode", "split_gather");
  if (mode == "split_gather" || mode == "ring")
    strategy.sp = strategy.tp > 1;
  else if (mode == "all_to_all" || mode == "ring_attn")
    strategy.cpKind =
        mode == "ring_attn" ? cost::CpKind::Ring : cost::CpKind::Ulysses;
  else
    fail(kwargs + "sequence_parallelism_mode",
         "; expected split_gather, ring, ring_attn or all_to_all");
}

void ColossalAiReader::readStages() {
  cost::Strategy &strategy = result.strategy;
  std::string style = word(kwargs + "pp_style", "1f1b");
  if (style != "1f1b" && style != "interleaved")
    refuse(kwargs + "pp_style", "schedule", "; expected 1f1b or interleaved");
  if (style == "interleaved" && strategy.pp > 1) {
    strategy.vpp = number(kwargs + "num_model_chunks", 1);
    strategy.schedule = strategy.vpp > 1 ? cost::ScheduleKind::Interleaved
                                         : cost::ScheduleKind::OneFOneB;
  } else {
    has(kwargs + "num_model_chunks");
  }
  // By default, pp is inside dp.
  if (isTrue(kwargs + "dp_outside", /*missing=*/true) && strategy.pp > 1 &&
      strategy.dp > 1)
    strategy.placement = {{"tp", "cp", "pp", "dp"}, {}};
}

void ColossalAiReader::readHybrid() {
  cost::Strategy &strategy = result.strategy;
  setDegrees(number(kwargs + "tp_size", 1), number(kwargs + "pp_size", 1),
             number(kwargs + "sp_size", 1));
  readSequence();
  readStages();
  strategy.zero = number(kwargs + "zero_stage", 0, 0);
  if (strategy.zero > 2)
    fail(kwargs + "zero_stage", "; expected 0, 1 or 2");
  if (isTrue(kwargs + "cpu_offload"))
    strategy.offload = cost::Offload::Optimizer;
}

void ColossalAiReader::readCopies() {
  cost::Strategy &strategy = result.strategy;
  int64_t copies = number(kwargs + "extra_dp_size", 1);
  if (strategy.dp % copies != 0)
    fail(kwargs + "extra_dp_size",
         "does not divide dp=" + std::to_string(strategy.dp));
  if (copies > 1)
    strategy.hybridShard = strategy.dp / copies;
}

void ColossalAiReader::readLowLevelZero(int64_t stage) {
  setDegrees(1, 1, 1);
  result.strategy.zero = stage;
  if (isTrue(kwargs + "cpu_offload"))
    result.strategy.offload = cost::Offload::Optimizer;
  readCopies();
}

bool ColossalAiReader::isOffloaded(const std::string &key) {
  const auto *part = find(kwargs + key);
  if (part && *part != 0.0 && *part != 1.0)
    refuse(kwargs + key, "offload", "offloads a part; expected 0 or 1");
  return part && *part == 1.0;
}

void ColossalAiReader::readGemini() {
  cost::Strategy &strategy = result.strategy;
  setDegrees(number(kwargs + "tp_size", 1), 1, 1);
  strategy.zero = 3;
  const FileSetting *policy = file.find(kwargs + "placement_policy");
  if (policy && policy->value != "static")
    refuse(kwargs + "placement_policy", "offload",
           "moves parameters at run time; expected static");
  if (const auto *part = find(kwargs + "shard_param_frac");
      part && *part != 1.0)
    refuse(kwargs + "shard_param_frac", "zero",
           "shards a part of the parameters; expected 1");
  has(kwargs + "placement_policy");
  bool optimizer = isOffloaded("offload_optim_frac");
  if (isOffloaded("offload_param_frac"))
    strategy.offload =
        optimizer ? cost::Offload::All : cost::Offload::Parameters;
  else if (optimizer)
    strategy.offload = cost::Offload::Optimizer;
  strategy.sp =
      isTrue(kwargs + "enable_sequence_parallelism") && strategy.tp > 1;
  readCopies();
}

/// The plugin divides the batch of a pipeline into micro-batches.
void ColossalAiReader::readBatch() {
  const cost::Strategy &strategy = result.strategy;
  int64_t batch = number("batch_size", 0);
  int64_t steps = number("accumulation_steps", 1);
  int64_t micro = batch, global = batch * steps * strategy.dp;
  if (strategy.pp > 1) {
    micro = number(kwargs + "microbatch_size", 0);
    steps = number(kwargs + "num_microbatches", 0);
  }
  setBatch(global, micro, steps);
}

Expected<Imported> ColossalAiReader::read() {
  refuseOthers();
  std::string plugin = word("plugin");
  if (plugin == "HybridParallelPlugin" || plugin == "hybrid")
    readHybrid();
  else if (plugin == "GeminiPlugin")
    readGemini();
  else if (plugin == "LowLevelZeroPlugin")
    readLowLevelZero(number(kwargs + "stage", 1));
  else if (plugin == "zero1" || plugin == "zero2")
    readLowLevelZero(plugin == "zero1" ? 1 : 2);
  else
    fail("plugin", isOpenSora ? "; expected hybrid, zero1 or zero2"
                              : "; expected HybridParallelPlugin, GeminiPlugin "
                                "or LowLevelZeroPlugin");
  readBatch();
  if (isTrue(isOpenSora ? "grad_checkpoint" : "gradient_checkpointing"))
    result.strategy.recompute = cost::Recompute::Full;
  result.precision = word(isOpenSora ? "dtype" : kwargs + "precision", "fp16");
  return finish();
}

static Expected<Imported> readPlugin(const FileSettings &file,
                                     const AskedStrategy &asked) {
  return ColossalAiReader(file, asked).read();
}

const ReaderOf colossalAiReader = {"a plugin of Colossal-AI",
                                   [](const FileSettings &file) {
                                     return file.syntax == Syntax::Json &&
                                            file.has("plugin") &&
                                            file.has("kwargs");
                                   },
                                   readPlugin};

const ReaderOf openSoraReader = {"a configuration of Open-Sora",
                                 [](const FileSettings &file) {
                                   return file.syntax == Syntax::Python &&
                                          file.has("plugin");
                                 },
                                 readPlugin};

} // namespace dpc::exports
