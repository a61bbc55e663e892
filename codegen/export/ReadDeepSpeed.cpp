//===- ReadDeepSpeed.cpp - A strategy from ds_config.json -----------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>
#include <set>

namespace dpc::exports {

namespace {

class DeepSpeedReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  void refuseOthers();
  void readDegrees();
  void readZero();
  void readZeroPlusPlus();
  void readOffload();
  void readBatch();
  void readRecompute();
  void readPrecision();
  void readSizes();
  /// Whether a section exists and is enabled. "auto" counts as enabled.
  bool isOn(const std::string &section);
  /// "", "host" or "disk".
  std::string placeOf(const std::string &section);
};

} // namespace

bool DeepSpeedReader::isOn(const std::string &section) {
  bool exists = file.has(section) && !file.find(section);
  return exists && isTrue(section + ".enabled", /*missing=*/true);
}

/// Refuses settings that --strategy cannot express.
void DeepSpeedReader::refuseOthers() {
  if (isOn("elasticity"))
    fail("elasticity changes the number of ranks at run time; expected "
         "elasticity.enabled=false");
  if (isOn("autotuning"))
    fail("autotuning has not chosen the strategy yet; expected the "
         "configuration that autotuning found");
  for (const char *key :
       {"tensor_parallel.tp", "tensor_parallel.tensor_parallel"})
    if (file.has(key))
      fail(key, "is for inference; expected tensor_parallel.autotp_size");
  if (isTrue("tensor_parallel.tp_overlap_comm"))
    refuse("tensor_parallel.tp_overlap_comm", "tp_overlap",
           "overlaps whole all-reduces with GEMMs of the backward pass; "
           "expected false, because tp_overlap=chunked divides them");
}

void DeepSpeedReader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  int64_t tp = number("tensor_parallel.autotp_size", 1, 0);
  int64_t pp = number("pipeline.stages", 1);
  int64_t cp = number("sequence_parallel_size", 1);
  int64_t ep = number("expert_parallel.autoep_size", 1);
  setDegrees(std::max<int64_t>(1, tp), pp, cp);
  if (strategy.cp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  if (!isOn("expert_parallel"))
    return;
  strategy.ep = ep;
  checkExpertTensor("expert_parallel.autoep_size",
                    number("expert_parallel.expert_tensor_parallel_size", 1));
}

std::string DeepSpeedReader::placeOf(const std::string &section) {
  std::string device = word(section + ".device", "none");
  if (device == "none")
    return "";
  if (device == "cpu" || device == "nvme")
    return device == "cpu" ? "host" : "disk";
  fail(section + ".device", "; expected \"cpu\", \"nvme\" or \"none\"");
  return "";
}

void DeepSpeedReader::readOffload() {
  std::string optimizer = placeOf("zero_optimization.offload_optimizer");
  std::string parameters = placeOf("zero_optimization.offload_param");
  if (isTrue("zero_optimization.cpu_offload")) // before 0.4
    optimizer = "host";
  if (optimizer.empty() && parameters.empty())
    return;
  if (!optimizer.empty() && !parameters.empty() && optimizer != parameters)
    refuse("zero_optimization.offload_optimizer.device", "offload_to",
           "is another device than offload_param's; expected one device");
  cost::Strategy &strategy = result.strategy;
  strategy.offload = parameters.empty()  ? cost::Offload::Optimizer
                     : optimizer.empty() ? cost::Offload::Parameters
                                         : cost::Offload::All;
  strategy.offloadTo = *symbolize<cost::OffloadTarget>(
      parameters.empty() ? optimizer : parameters);
  const std::string ratio = "zero_optimization.offload_optimizer.ratio";
  if (const auto *part = find(ratio); part && *part != 1.0)
    refuse(ratio, "offload", "; expected 1");
}

void DeepSpeedReader::readZero() {
  int64_t stage = number("zero_optimization.stage", 0, 0);
  if (stage > 3)
    fail("zero_optimization.stage", "; expected 0 to 3");
  result.strategy.zero = stage;
  int64_t shard = number("zero_optimization.mics_shard_size", 0, -1);
  if (shard > 0 && stage > 0 && shard != result.strategy.dp)
    result.strategy.hybridShard = shard;
}

/// ZeRO++ has a second copy of the parameters in each node (hpZ), weights that
/// are sent as int8 (qwZ), and gradients that are sent as int4 (qgZ).
void DeepSpeedReader::readZeroPlusPlus() {
  const std::string section = "zero_optimization.";
  if (number(section + "zero_hpz_partition_size", 1) > 1)
    refuse(section + "zero_hpz_partition_size", "hybrid_shard",
           "keeps a second copy of the parameters in each node, and no key of "
           "--strategy does; expected 1, or hybrid_shard, which also shards "
           "gradients and optimizer states within a node");
  result.compressesWeights = isTrue(section + "zero_quantized_weights");
  if (isTrue(section + "zero_quantized_gradients"))
    fail(section + "zero_quantized_gradients",
         "sends gradients as int4; expected false, and for int8 "
         "--compress-gradients=int8");
}

void DeepSpeedReader::readBatch() {
  int64_t all = number("train_batch_size", 0);
  int64_t micro = number("train_micro_batch_size_per_gpu", 0);
  int64_t steps = number("gradient_accumulation_steps", 0);
  int64_t dp = result.strategy.dp, product = micro * steps * dp;
  // Other degrees than in the file need another number of micro-batches.
  bool isFilesOwn = asked.keys.empty();
  if (isFilesOwn && all > 0 && product > 0 && product != all)
    fail("train_batch_size",
         "; expected " + std::to_string(product) +
             ", which is train_micro_batch_size_per_gpu=" +
             std::to_string(micro) + " x gradient_accumulation_steps=" +
             std::to_string(steps) + " x dp=" + std::to_string(dp));
  setBatch(all, micro, steps);
}

void DeepSpeedReader::readRecompute() {
  const std::string section = "activation_checkpointing.";
  int64_t interval = number("pipeline.activation_checkpoint_interval", 0, 0);
  int64_t checkpoints = number(section + "number_checkpoints", 0, 0);
  if (interval > 0 || checkpoints > 0)
    result.strategy.recompute = cost::Recompute::Full;
  if (interval > 1)
    refuse("pipeline.activation_checkpoint_interval", "recompute",
           "keeps the input of one of " + std::to_string(interval) +
               " layers; expected 1, as in recompute=full");
  if (isTrue(section + "cpu_checkpointing"))
    refuse(section + "cpu_checkpointing", "recompute",
           "moves activations to the host; expected false");
  if (isTrue(section + "partition_activations") && result.strategy.tp > 1)
    refuse(section + "partition_activations", "recompute",
           "shards the inputs of recomputed layers over tp; expected false");
}

void DeepSpeedReader::readPrecision() {
  bool isHalf = isOn("fp16"), isStatedHalf = isTrue("fp16.enabled");
  if (isStatedHalf && isTrue("bf16.enabled"))
    fail("bf16 and fp16 are both enabled; expected one of them");
  // "auto" yields to a type that is stated.
  result.precision = isOn("bf16") && !isStatedHalf ? "bf16"
                     : isHalf                      ? "fp16"
                                                   : "fp32";
  result.usesSgd = word("optimizer.type") == "SGD";
  for (const char *section :
       {"bf16", "fp16", "autotuning", "elasticity", "expert_parallel"})
    if (!isOn(section))
      useSection(section);
}

/// The vocabulary is the only model size that a ds_config states.
void DeepSpeedReader::readSizes() {
  if (auto words = findNumber("vocabulary_size"))
    result.sizes.push_back({"vocabulary_size", *words, &ModelShape::vocabulary,
                            /*isOfTokens=*/true});
}

Expected<Imported> DeepSpeedReader::read() {
  for (auto step :
       {&DeepSpeedReader::refuseOthers, &DeepSpeedReader::readDegrees,
        &DeepSpeedReader::readZero, &DeepSpeedReader::readZeroPlusPlus,
        &DeepSpeedReader::readOffload, &DeepSpeedReader::readBatch,
        &DeepSpeedReader::readRecompute, &DeepSpeedReader::readPrecision})
    if ((this->*step)(); !error.empty())
      return Error{error};
  readSizes();
  return finish();
}

static bool isDeepSpeed(const FileSettings &file) {
  const char *keys[] = {"train_batch_size",
                        "train_micro_batch_size_per_gpu",
                        "gradient_accumulation_steps",
                        "zero_optimization",
                        "zero_allow_untested_optimizer",
                        "bf16",
                        "fp16",
                        "pipeline",
                        "tensor_parallel",
                        "expert_parallel",
                        "sequence_parallel_size",
                        "vocabulary_size",
                        "activation_checkpointing",
                        "elasticity",
                        "autotuning"};
  return file.syntax == Syntax::Json &&
         std::ranges::any_of(keys,
                             [&](const char *key) { return file.has(key); });
}

const ReaderOf deepSpeedReader = {
    "a DeepSpeed configuration", isDeepSpeed,
    [](const FileSettings &file, const AskedStrategy &asked) {
      return DeepSpeedReader(file, asked).read();
    }};

} // namespace dpc::exports
