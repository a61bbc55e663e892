//===- ReadMaxText.cpp - A strategy from MaxText's YAML -------------------===//
//
// Reads the configuration of maxtext.trainers.pre_train.train. Defaults are
// those of configs/base.yml (MaxText 0.2.5).
//
//===----------------------------------------------------------------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

namespace {

class MaxTextReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  void refuseOthers();
  void resolveRest();

  void readDegrees();
  void readSharding();
  void readContext();
  void readStages();
  void readBatch();
  void readMemory();
  void readPrecision();
  void readOptimizer();
  void readSizes();
  void expectWord(const char *key, const char *standard, const char *why);
  int64_t microBatchesOf() {
    return number("num_pipeline_microbatches", result.strategy.pp);
  }

  /// Ranks along each axis: ici_* times dcn_*.
  std::map<std::string, int64_t> mesh;
};

/// A setting that changes how ranks share the work, and its neutral value.
struct Neutral {
  const char *key, *value, *why;
};

} // namespace

static constexpr const char *kAxes[] = {
    "data", "fsdp", "expert", "context", "tensor", "tensor_sequence",
    "pipeline",
    // Only 1 is accepted of these:
    "diloco", "fsdp_transpose", "sequence", "context_usp_ulysses",
    "context_autoregressive", "autoregressive"};
static constexpr size_t kKnownAxes = 7;

static const Neutral kNeutral[] = {
    {"base_config", "base.yml",
     "is another file; expected base.yml, or one "
     "file with all settings"},
    {"custom_mesh_and_rule", "",
     "shards by rules of its own; expected those "
     "of base.yml"},
    {"logical_axis_rules", "",
     "; expected the rules of base.yml, without this "
     "key"},
    {"enable_diloco", "false",
     "; expected false: dpc's replicas share every "
     "step"},
    {"shard_exp_on_fsdp", "false", "; expected false"},
    {"pipeline_delay_activation_forwarding", "false", "; expected false"},
    {"pipeline_fsdp_ag_once", "false",
     "; expected false: dpc gathers weights "
     "for each micro-batch"},
    {"pipeline_fsdp_ag_per_repeat", "false",
     "; expected false: dpc gathers "
     "weights for each micro-batch"},
    {"global_parameter_scale", "1",
     "scales the sizes of the model; expected 1 "
     "and the sizes themselves"},
    {"quantization", "", "; expected none: dpc's fp8 scales differently"},
};

void MaxTextReader::expectWord(const char *key, const char *standard,
                               const char *why) {
  if (has(key) && word(key) != standard)
    fail(key, why);
}

void MaxTextReader::refuseOthers() {
  for (const Neutral &neutral : kNeutral)
    expectWord(neutral.key, neutral.value, neutral.why);
}

/// Resolves the axis with -1 of both parts of the mesh: by default fsdp within
/// a node, and data between nodes.
void MaxTextReader::resolveRest() {
  constexpr int64_t kMost = 1 << 20; // products of two do not overflow
  int64_t perNode = asked.devicesPerNode > 0 ? asked.devicesPerNode : devices;
  int64_t nodes = number("num_slices", -1, -1);
  if (nodes < 1)
    nodes = std::max<int64_t>(1, devices / perNode);
  for (const char *part : {"dcn_", "ici_"}) {
    bool isOuter = part[0] == 'd';
    int64_t known = 1;
    std::string open;
    for (const char *axis : kAxes) {
      std::string key = part + std::string(axis) + "_parallelism";
      bool isOpen = std::string(axis) == (isOuter ? "data" : "fsdp");
      int64_t ranks = number(key, isOpen ? -1 : 1, -1);
      if (ranks == 0)
        fail(key, "; expected -1 or a whole number >= 1");
      if (ranks < 0 && !open.empty())
        fail(key, "; expected -1 for one axis only");
      if (ranks < 0)
        open = axis;
      else
        known *= std::max<int64_t>(1, ranks);
      if (known > kMost)
        return fail(key, "makes a mesh that is too large; expected at most " +
                             std::to_string(kMost) + " ranks");
      mesh.try_emplace(axis, 1).first->second *= std::max<int64_t>(1, ranks);
    }
    int64_t all = isOuter ? nodes : devices / nodes;
    if (open.empty())
      continue;
    if (all % known != 0)
      fail("the product of the " + std::string(part) +
           "*_parallelism settings, " + std::to_string(known) +
           ", does not divide the " + std::to_string(all) +
           (isOuter ? " nodes" : " devices of a node"));
    mesh[open] *= std::max<int64_t>(1, all / known);
  }
}

void MaxTextReader::readDegrees() {
  resolveRest();
  for (size_t i = kKnownAxes; i < std::size(kAxes); ++i)
    if (mesh[kAxes[i]] > 1) {
      std::string suffix = std::string(kAxes[i]) + "_parallelism";
      fail(has("ici_" + suffix) && word("ici_" + suffix) != "1"
               ? "ici_" + suffix
               : "dcn_" + suffix,
           "has no key in --strategy; expected 1");
    }
  if (mesh["tensor"] > 1 && mesh["tensor_sequence"] > 1)
    fail("ici_tensor_sequence_parallelism",
         "is beside tensor parallelism; expected one of both");
  int64_t tp = mesh["tensor"] * mesh["tensor_sequence"];
  int64_t ranks = 1;
  for (const char *axis : kAxes)
    ranks *= mesh[axis];
  if (asked.keys.empty())
    setDevices("ici_fsdp_parallelism", ranks);
  setDegrees(tp, mesh["pipeline"], mesh["context"]);
  result.strategy.sp = mesh["tensor_sequence"] > 1 && result.strategy.tp > 1;
  result.strategy.ep = mesh["expert"];
}

/// The axes fsdp, expert and context shard all weights.
void MaxTextReader::readSharding() {
  cost::Strategy &strategy = result.strategy;
  int64_t shards = mesh["fsdp"] * mesh["expert"], replicas = mesh["data"];
  bool shardsStates = isTrue("shard_optimizer_over_data");
  if (shards > 1 || strategy.cp > 1)
    strategy.zero = 3;
  if (shardsStates && strategy.zero == 3)
    refuse("shard_optimizer_over_data", "zero",
           "is for plans that shard no parameters; expected fsdp, expert and "
           "context parallelism of 1, or false");
  else if (shardsStates)
    strategy.zero = 1;
  if (shards == 1 && replicas > 1 && strategy.cp > 1)
    refuse("ici_context_parallelism", "zero",
           "shards parameters over the context-parallel ranks only; expected "
           "ici_fsdp_parallelism > 1");
  if (shards > 1 && replicas > 1 && strategy.dp % replicas == 0)
    strategy.hybridShard = strategy.dp / replicas;
}

void MaxTextReader::readContext() {
  cost::Strategy &strategy = result.strategy;
  const std::string key = "context_parallel_strategy";
  std::string kind = word(key, "all_gather");
  if (strategy.cp == 1)
    return;
  if (kind == "ulysses")
    strategy.cpKind = cost::CpKind::Ulysses;
  else if (kind != "ring")
    refuse(has(key) ? key : "ici_context_parallelism", "cp_kind",
           has(key) ? "; expected ring or ulysses"
                    : "has the strategy all_gather; expected "
                      "context_parallel_strategy=ring or ulysses");
}

/// All micro-batches pass all repeats before the backward passes begin: GPipe.
/// With as many micro-batches as stages, interleaved 1F1B comes close to it.
void MaxTextReader::readStages() {
  cost::Strategy &strategy = result.strategy;
  int64_t layers = number("base_num_decoder_layers", 0);
  int64_t piped = number("pipeline_parallel_layers", -1, -1);
  int64_t each = number("num_layers_per_pipeline_stage", 1);
  int64_t repeats = number("num_pipeline_repeats", -1, -1);
  if (strategy.pp == 1)
    return;
  if (piped > 0 && piped != layers)
    refuse("pipeline_parallel_layers", "pp",
           "leaves layers outside of the pipeline; expected -1");
  strategy.schedule = cost::ScheduleKind::GPipe;
  if (repeats < 1 && layers > 0)
    repeats = std::max<int64_t>(1, layers / (each * strategy.pp));
  if (repeats < 1)
    result.chunks.each = each;
  strategy.vpp = std::max<int64_t>(1, repeats);
  if (strategy.vpp == 1 && result.chunks.each == 0)
    return;
  strategy.schedule = cost::ScheduleKind::Interleaved;
  if (microBatchesOf() != strategy.pp)
    refuse("num_pipeline_microbatches", "schedule",
           "repeats stages with more micro-batches than stages; expected " +
               std::to_string(strategy.pp));
}

/// Without a pipeline, a pass of gradient accumulation is one micro-batch.
void MaxTextReader::readBatch() {
  const cost::Strategy &strategy = result.strategy;
  const std::string key = "per_device_batch_size";
  int64_t passes = number("gradient_accumulation_steps", 1);
  double each = 12;
  if (const auto *value = find(key)) {
    if (!value->is_number() || !(value->get<double>() > 0) ||
        value->get<double>() > 1e6)
      return fail(key, "; expected a number > 0");
    each = value->get<double>();
  }
  auto pass = static_cast<int64_t>(each * static_cast<double>(devices));
  int64_t parts = strategy.dp * (strategy.pp > 1 ? microBatchesOf() : 1);
  if (pass == 0 || pass % parts != 0)
    return fail(key, "gives " + std::to_string(pass) +
                         " samples on all devices; expected a multiple of " +
                         std::to_string(parts) +
                         ", the data-parallel ranks times micro-batches");
  if (strategy.pp > 1 && passes > 1)
    refuse("gradient_accumulation_steps", "micro_batch",
           "repeats the whole pipeline; expected 1");
  setBatch(pass * passes, pass / parts, 0);
}

void MaxTextReader::readMemory() {
  using cost::Offload, cost::Recompute;
  cost::Strategy &strategy = result.strategy;
  std::string policy = word("remat_policy", "full");
  const std::pair<const char *, Recompute> policies[] = {
      {"full", Recompute::Full},
      {"minimal", Recompute::Selective},
      {"minimal_with_context", Recompute::Selective},
      {"minimal_flash", Recompute::Selective}};
  const auto *found = std::ranges::find(
      policies, policy, &std::pair<const char *, Recompute>::first);
  if (found != std::end(policies))
    strategy.recompute = found->second;
  else
    refuse("remat_policy", "recompute",
           "; expected full, minimal or minimal_with_context");
  bool optimizer = isTrue("optimizer_memory_host_offload"),
       parameters = isTrue("parameter_memory_host_offload");
  strategy.offload = optimizer && parameters ? Offload::All
                     : optimizer             ? Offload::Optimizer
                     : parameters            ? Offload::Parameters
                                             : Offload::None;
}

void MaxTextReader::readPrecision() {
  std::string type = word("dtype", "bfloat16");
  result.precision = type == "float32" ? "fp32" : "bf16";
  if (type != "float32" && type != "bfloat16")
    fail("dtype", "; expected bfloat16 or float32");
  for (const char *key : {"weight_dtype", "grad_dtype", "mu_dtype"})
    if (has(key) && !word(key).empty() && word(key) != "float32")
      fail(key, "; expected float32, because dpc keeps weights, gradients and "
                "optimizer states in fp32");
}

void MaxTextReader::readOptimizer() {
  std::string kind = word("opt_type", "adamw");
  result.usesSgd = kind == "sgd";
  if (kind != "sgd" && kind != "adamw" && kind != "adam_pax")
    fail("opt_type", "; expected adamw, adam_pax or sgd");
}

void MaxTextReader::readSizes() {
  struct Size {
    const char *key;
    int64_t ModelShape::*size;
    bool isOfTokens = false;
  };
  const Size sizes[] = {{"base_num_decoder_layers", &ModelShape::layers},
                        {"base_emb_dim", &ModelShape::hidden},
                        {"base_num_query_heads", &ModelShape::heads},
                        {"base_num_kv_heads", &ModelShape::kvHeads},
                        {"head_dim", &ModelShape::headSize},
                        {"base_mlp_dim", &ModelShape::feedForward},
                        {"num_experts", &ModelShape::experts},
                        {"vocab_size", &ModelShape::vocabulary},
                        {"max_target_length", &ModelShape::sequence, true}};
  for (const auto &[key, size, isOfTokens] : sizes)
    if (auto value = findNumber(key))
      result.sizes.push_back({key, *value, size, isOfTokens});
}

Expected<Imported> MaxTextReader::read() {
  for (auto step : {&MaxTextReader::refuseOthers, &MaxTextReader::readDegrees,
                    &MaxTextReader::readSharding, &MaxTextReader::readContext,
                    &MaxTextReader::readStages, &MaxTextReader::readBatch,
                    &MaxTextReader::readMemory, &MaxTextReader::readPrecision,
                    &MaxTextReader::readOptimizer, &MaxTextReader::readSizes})
    if ((this->*step)(); !error.empty())
      return Error{error};
  return finish();
}

static bool isMaxText(const FileSettings &file) {
  return file.syntax == Syntax::Yaml &&
         std::ranges::any_of(file.settings, [](const FileSetting &setting) {
           const std::string &key = setting.key;
           return key == "per_device_batch_size" || key == "base_emb_dim" ||
                  ((key.starts_with("ici_") || key.starts_with("dcn_")) &&
                   key.ends_with("_parallelism"));
         });
}

const ReaderOf maxTextReader = {
    "a MaxText configuration", isMaxText,
    [](const FileSettings &file, const AskedStrategy &asked) {
      return MaxTextReader(file, asked).read();
    }};

} // namespace dpc::exports
