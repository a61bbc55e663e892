//===- ReadMegatron.cpp - A strategy from flags of Megatron-LM ------------===//
//
// Reads a Megatron-LM command, or a script that contains one (ShellWords.h).
//
//===----------------------------------------------------------------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

namespace {

using Words = std::vector<std::string>;

class MegatronReader : StrategyReader {
public:
  MegatronReader(const FileSettings &file, const AskedStrategy &asked);
  Expected<Imported> read();

private:
  bool hasTwoStacks; ///< the model has an encoder and a decoder

  void refuseOthers();
  void readDegrees();
  void readStages();
  void readExperts();
  void readData();
  void readRecompute();
  bool recomputesAll(const std::string &method);
  void readSizes();
  void readVocabulary();
  void readPrecision();
};

} // namespace

MegatronReader::MegatronReader(const FileSettings &file,
                               const AskedStrategy &asked)
    : StrategyReader(file, asked),
      hasTwoStacks(std::ranges::any_of(file.words, [](const std::string &word) {
        return word.ends_with(".py") && word.find("t5") != std::string::npos;
      })) {}

/// Refuses flags that --strategy cannot express.
void MegatronReader::refuseOthers() {
  for (const char *flag :
       {"hierarchical-context-parallel-sizes", "hybrid-context-parallel",
        "tensor-parallel-num-weight-shards",
        "expert-tensor-parallel-num-weight-shards",
        "fine-grained-activation-offloading", "cpu-offloading-num-layers",
        "encoder-tensor-model-parallel-size",
        "encoder-pipeline-model-parallel-size", "rampup-batch-size", "yaml-cfg",
        "hybrid-layer-pattern"})
    if (has(flag))
      fail(flag, "has no key of --strategy; expected a command without it");
}

void MegatronReader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  int64_t tp = number("tensor-model-parallel-size", 1);
  int64_t pp = number("pipeline-model-parallel-size", 1);
  int64_t cp = number("context-parallel-size", 1);
  std::string kind = word("cp-comm-type");
  const auto *kinds = find("cp-comm-type");
  if (kind == "a2a+p2p" || (kinds && kinds->is_array()))
    refuse("cp-comm-type", "cp_kind",
           "mixes two kinds; expected p2p, a2a or allgather");
  setDegrees(tp, pp, cp);
  tp = strategy.tp;
  if (strategy.cp > 1)
    strategy.cpKind =
        kind == "a2a" ? cost::CpKind::Ulysses : cost::CpKind::Ring;
  strategy.sp = isTrue("sequence-parallel") && tp > 1;
  if (isTrue("tp-comm-overlap") && tp > 1)
    strategy.tpOverlap = cost::TpOverlap::Chunked;
  if (isTrue("use-tp-pp-dp-mapping"))
    strategy.placement = {{"tp", "cp", "pp", "dp"}, {}};
}

void MegatronReader::readStages() {
  cost::Strategy &strategy = result.strategy;
  strategy.vpp = number("num-virtual-stages-per-pipeline-rank", 1);
  int64_t each = number("num-layers-per-virtual-pipeline-stage", 0);
  int64_t layers = number("num-layers", 0);
  if (each > 0) {
    const char *flag = "num-layers-per-virtual-pipeline-stage";
    if (layers == 0)
      fail(flag, "needs --num-layers, which is missing");
    if (layers % (each * strategy.pp) != 0)
      fail(flag, "with --num-layers " + std::to_string(layers) +
                     " and pp=" + std::to_string(strategy.pp) +
                     "; expected --num-layers to be a multiple of " +
                     std::to_string(each * strategy.pp));
    strategy.vpp = layers / (each * strategy.pp);
  }
  if (std::string layout = word("pipeline-model-parallel-layout");
      !layout.empty()) {
    int64_t stages = 1 + std::ranges::count(layout, '|');
    if (layout.find('(') != std::string::npos || stages % strategy.pp != 0)
      fail("pipeline-model-parallel-layout",
           "; expected stages separated by '|', their number a multiple of "
           "pp=" +
               std::to_string(strategy.pp) + ", without repetitions (...)");
    strategy.vpp = stages / strategy.pp;
  }
  if (strategy.pp == 1)
    strategy.vpp = 1;
  strategy.schedule = strategy.vpp > 1 ? cost::ScheduleKind::Interleaved
                                       : cost::ScheduleKind::OneFOneB;
}

void MegatronReader::readExperts() {
  cost::Strategy &strategy = result.strategy;
  strategy.ep = number("expert-model-parallel-size", 1);
  checkExpertTensor("expert-tensor-parallel-size",
                    number("expert-tensor-parallel-size", strategy.tp.ranks));
}

void MegatronReader::readData() {
  cost::Strategy &strategy = result.strategy;
  bool isMegatron = isTrue("use-megatron-fsdp") || isTrue("use-custom-fsdp");
  bool isTorch = isTrue("use-torch-fsdp2");
  std::string kind = word("data-parallel-sharding-strategy");
  strategy.zero = isTrue("use-distributed-optimizer") ? 1 : 0;
  if (isMegatron) {
    const Words stages = {"no_shard", "optim", "optim_grads",
                          "optim_grads_params"};
    auto stage =
        kind.empty() ? stages.end() - 1 : std::ranges::find(stages, kind);
    if (stage == stages.end())
      fail("data-parallel-sharding-strategy",
           "; expected no_shard, optim, optim_grads or optim_grads_params");
    strategy.zero = stage - stages.begin();
  } else if (isTorch) {
    strategy.zero = isTrue("torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
  }
  if (word("outer-dp-sharding-strategy") == "optim")
    refuse("outer-dp-sharding-strategy", "hybrid_shard",
           "has no key of --strategy; expected no_shard");
  int64_t copies = number("num-distributed-optimizer-instances", 1);
  if (strategy.zero > 0 && copies > 1 && strategy.dp % copies == 0)
    strategy.hybridShard = strategy.dp / copies;
  if (!isTrue("optimizer-cpu-offload"))
    return;
  strategy.offload = cost::Offload::Optimizer;
  std::string part = word("optimizer-offload-fraction");
  if (!part.empty() && part != "1" && part != "1.0")
    refuse("optimizer-offload-fraction", "offload", "; expected 1");
}

/// Whether full recomputation covers each layer by itself, as recompute=full
/// does. With "uniform", N layers are recomputed together from the input of the
/// first; with "block", only N layers of each stage are recomputed.
bool MegatronReader::recomputesAll(const std::string &method) {
  int64_t count = number("recompute-num-layers", 1);
  if (method == "uniform")
    return count == 1;
  const cost::Strategy &strategy = result.strategy;
  int64_t layers = findNumber("num-layers").value_or(0);
  int64_t chunks = strategy.pp * strategy.vpp;
  return layers > 0 && count >= (layers + chunks - 1) / chunks;
}

void MegatronReader::readRecompute() {
  std::string kind = word("recompute-granularity");
  if (kind.empty() && isTrue("recompute-activations"))
    kind = "selective";
  if (kind == "full" || kind == "selective")
    result.strategy.recompute = *symbolize<cost::Recompute>(kind);
  else if (!kind.empty())
    fail("recompute-granularity", "; expected full or selective");
  std::string method = word("recompute-method");
  if (method.empty() || kind != "full")
    return;
  if (method != "uniform" && method != "block")
    fail("recompute-method", "; expected uniform or block");
  if (recomputesAll(method))
    return;
  if (method == "block")
    refuse("recompute-method", "recompute",
           "recomputes some layers only; expected uniform");
  else
    refuse("recompute-num-layers", "recompute",
           "keeps the input of a group of layers; expected 1, because "
           "recompute=full keeps the input of each layer");
}

/// Ignores sizes that are not numbers, such as variables of the shell.
void MegatronReader::readSizes() {
  struct Flag {
    const char *name;
    int64_t ModelShape::*size;
    bool isOfTokens = false;
  };
  const Flag all[] = {{"num-layers", &ModelShape::layers},
                      {"hidden-size", &ModelShape::hidden},
                      {"num-attention-heads", &ModelShape::heads},
                      {"kv-channels", &ModelShape::headSize},
                      {"num-query-groups", &ModelShape::kvHeads},
                      {"ffn-hidden-size", &ModelShape::feedForward},
                      {"num-experts", &ModelShape::experts},
                      {"seq-length", &ModelShape::sequence, true},
                      {"encoder-seq-length", &ModelShape::sequence, true}};
  // With experts, --moe-ffn-hidden-size may override --ffn-hidden-size.
  bool hasExperts = file.has("num-experts");
  for (const Flag &flag : all) {
    bool isLeftOut =
        (hasTwoStacks && flag.size == &ModelShape::layers) ||
        (hasExperts && flag.size == &ModelShape::feedForward) ||
        (flag.size == &ModelShape::kvHeads && !isTrue("group-query-attention"));
    auto value = findNumber(flag.name);
    if (!isLeftOut && value)
      result.sizes.push_back(
          {std::string("--") + flag.name, *value, flag.size, flag.isOfTokens});
  }
  readVocabulary();
}

/// Megatron-LM may pad the vocabulary to `multiple`.
void MegatronReader::readVocabulary() {
  constexpr int64_t kDivisor = 128; // Megatron-LM's default
  int64_t multiple =
      findNumber("make-vocab-size-divisible-by").value_or(kDivisor) *
      result.strategy.tp.ranks;
  for (const char *flag : {"padded-vocab-size", "vocab-size"})
    if (auto value = findNumber(flag))
      result.sizes.push_back(
          {std::string("--") + flag, *value, &ModelShape::vocabulary,
           /*isOfTokens=*/true,
           /*most=*/(*value + multiple - 1) / multiple * multiple});
}

void MegatronReader::readPrecision() {
  result.precision = "fp32";
  for (const char *precision : {"bf16", "fp16"})
    if (isTrue(precision))
      result.precision = precision;
  const FileSetting *format = file.find("fp8-format");
  if (!format || format->value != "hybrid")
    return;
  result.precision = "fp8";
  has("fp8-format");
  // dpc scales each tensor by its largest element ("tensorwise").
  std::string recipe = word("fp8-recipe", "delayed");
  if (recipe != "tensorwise")
    result.ignored.push_back("--fp8-recipe " + recipe);
}

Expected<Imported> MegatronReader::read() {
  readTorchrun();
  for (auto step : {&MegatronReader::refuseOthers, &MegatronReader::readDegrees,
                    &MegatronReader::readStages, &MegatronReader::readExperts,
                    &MegatronReader::readData, &MegatronReader::readRecompute})
    if ((this->*step)(); !error.empty())
      return Error{error};
  setBatch(number("global-batch-size", 0), number("micro-batch-size", 0), 0);
  readSizes();
  readPrecision();
  result.usesSgd = word("optimizer") == "sgd";
  return finish();
}

static bool isMegatron(const FileSettings &file) {
  return file.syntax == Syntax::Flags &&
         std::ranges::any_of(file.settings, [](const FileSetting &flag) {
           return flag.key.find("parallel-size") != std::string::npos ||
                  flag.key == "micro-batch-size";
         });
}

const ReaderOf megatronReader = {
    "a command with Megatron-LM's flags", isMegatron,
    [](const FileSettings &file, const AskedStrategy &asked) {
      return MegatronReader(file, asked).read();
    }};

} // namespace dpc::exports
