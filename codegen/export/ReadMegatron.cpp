//===- ReadMegatron.cpp - A strategy from flags of Megatron-LM ------------===//
//
// Reads a Megatron-LM command, or a script that contains one (ShellWords.h).
//
//===----------------------------------------------------------------------===//
#include "codegen/export/ShellWords.h"
#include "codegen/export/StrategyReader.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace dpc::exports {

namespace {

using Words = std::vector<std::string>;
/// The words after each flag, up to the next flag.
using Flags = std::map<std::string, Words>;

class MegatronReader : StrategyReader {
public:
  MegatronReader(const Words &words, Flags flags, int64_t devices);
  Expected<Imported> read();

private:
  Flags flags;
  bool hasTwoStacks; ///< the model has an encoder and a decoder
  std::set<std::string> used;

  bool has(const std::string &flag);
  /// Returns the first word after the flag, or "".
  std::string word(const std::string &flag);
  /// The value of the flag if it is an integer of at least 1, else nullopt.
  std::optional<int64_t> findNumber(const std::string &flag);
  /// Returns `missing` without the flag. Fails unless the value is at least 1.
  int64_t number(const std::string &flag, int64_t missing);
  void refuseOthers();
  void readRanks();
  void readDegrees();
  void readStages();
  void readExperts();
  void readData();
  void readRecompute();
  void readSizes();
  void readVocabulary();
  void readRest();
};

} // namespace

static Flags flagsOf(const Words &words) {
  Flags found;
  std::string last;
  for (const std::string &word : words) {
    if (!word.starts_with("--")) {
      if (!last.empty())
        found[last].push_back(word);
      continue;
    }
    size_t equal = word.find('=');
    last = word.substr(2, equal == std::string::npos ? equal : equal - 2);
    std::ranges::replace(last, '_', '-');
    found[last].clear();
    if (equal != std::string::npos)
      found[last].push_back(word.substr(equal + 1));
  }
  return found;
}

MegatronReader::MegatronReader(const Words &words, Flags flags, int64_t devices)
    : StrategyReader("Megatron-LM's flags: ", devices), flags(std::move(flags)),
      hasTwoStacks(std::ranges::any_of(words, [](const std::string &word) {
        return word.ends_with(".py") && word.find("t5") != std::string::npos;
      })) {}

bool MegatronReader::has(const std::string &flag) {
  used.insert(flag);
  return flags.count(flag) > 0;
}

std::string MegatronReader::word(const std::string &flag) {
  return has(flag) && !flags[flag].empty() ? flags[flag].front() : "";
}

std::optional<int64_t> MegatronReader::findNumber(const std::string &flag) {
  std::string text = word(flag);
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool isNumber = error == std::errc() && end == text.data() + text.size();
  return isNumber && value >= 1 ? std::optional(value) : std::nullopt;
}

int64_t MegatronReader::number(const std::string &flag, int64_t missing) {
  if (!has(flag))
    return missing;
  std::optional<int64_t> value = findNumber(flag);
  if (!value)
    fail("--" + flag + " '" + word(flag) + "'; expected a whole number >= 1");
  if (value > kMost) {
    fail("--" + flag + " " + word(flag) + " is too large; expected at most " +
         std::to_string(kMost));
    return missing;
  }
  return value.value_or(missing);
}

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
      fail(std::string("--") + flag +
           " has no key of --strategy; expected a command without it");
}

void MegatronReader::readRanks() {
  int64_t nodes = number("nnodes", 1), each = number("nproc-per-node", 0);
  if (each == 0)
    return;
  int64_t ranks = nodes * each;
  if (ranks > devices)
    fail("torchrun starts " + std::to_string(ranks) +
         " processes; expected at most the " + std::to_string(devices) +
         " devices of the cluster");
  devices = ranks;
}

void MegatronReader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  int64_t tp = number("tensor-model-parallel-size", 1);
  int64_t pp = number("pipeline-model-parallel-size", 1);
  int64_t cp = number("context-parallel-size", 1);
  std::string kind = word("cp-comm-type");
  if (kind == "a2a+p2p" ||
      (has("cp-comm-type") && flags["cp-comm-type"].size() > 1))
    fail("--cp-comm-type " + kind +
         " mixes two kinds; expected p2p, a2a or allgather");
  setDegrees(tp, pp, cp);
  if (cp > 1)
    strategy.cpKind =
        kind == "a2a" ? cost::CpKind::Ulysses : cost::CpKind::Ring;
  strategy.sp = has("sequence-parallel") && tp > 1;
  if (has("tp-comm-overlap") && tp > 1)
    strategy.tpOverlap = cost::TpOverlap::Chunked;
  if (has("use-tp-pp-dp-mapping"))
    strategy.placement = {{"tp", "cp", "pp", "dp"}, {}};
}

void MegatronReader::readStages() {
  cost::Strategy &strategy = result.strategy;
  strategy.vpp = number("num-virtual-stages-per-pipeline-rank", 1);
  int64_t each = number("num-layers-per-virtual-pipeline-stage", 0);
  int64_t layers = number("num-layers", 0);
  if (each > 0) {
    std::string flag =
        "--num-layers-per-virtual-pipeline-stage " + std::to_string(each);
    if (layers == 0)
      fail(flag + " needs --num-layers, which is missing");
    if (layers % (each * strategy.pp) != 0)
      fail(flag + " with --num-layers " + std::to_string(layers) +
           " and pp=" + std::to_string(strategy.pp) +
           "; expected --num-layers to be a multiple of " +
           std::to_string(each * strategy.pp));
    strategy.vpp = layers / (each * strategy.pp);
  }
  if (std::string layout = word("pipeline-model-parallel-layout");
      !layout.empty()) {
    int64_t stages = 1 + std::ranges::count(layout, '|');
    if (layout.find('(') != std::string::npos || stages % strategy.pp != 0)
      fail("--pipeline-model-parallel-layout " + layout +
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
  int64_t tensor = number("expert-tensor-parallel-size", strategy.tp.ranks);
  if (strategy.ep == 1 || strategy.tp.ranks == 1)
    return;
  int64_t expected = strategy.dp % strategy.ep == 0 ? strategy.tp.ranks : 1;
  if (tensor != expected)
    fail("--expert-tensor-parallel-size " + std::to_string(tensor) +
         " with --expert-model-parallel-size " + std::to_string(strategy.ep) +
         "; expected " + std::to_string(expected) +
         ", because --strategy shards each expert over tp only if ep divides "
         "dp");
}

void MegatronReader::readData() {
  cost::Strategy &strategy = result.strategy;
  bool isMegatron = has("use-megatron-fsdp") || has("use-custom-fsdp");
  bool isTorch = has("use-torch-fsdp2");
  std::string kind = word("data-parallel-sharding-strategy");
  strategy.zero = has("use-distributed-optimizer") ? 1 : 0;
  if (isMegatron) {
    const Words stages = {"no_shard", "optim", "optim_grads",
                          "optim_grads_params"};
    auto stage =
        kind.empty() ? stages.end() - 1 : std::ranges::find(stages, kind);
    if (stage == stages.end())
      fail("--data-parallel-sharding-strategy " + kind +
           "; expected no_shard, optim, optim_grads or optim_grads_params");
    strategy.zero = stage - stages.begin();
  } else if (isTorch) {
    strategy.zero = has("torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
  }
  if (word("outer-dp-sharding-strategy") == "optim")
    fail("--outer-dp-sharding-strategy optim has no key of --strategy; "
         "expected no_shard");
  int64_t copies = number("num-distributed-optimizer-instances", 1);
  if (strategy.zero > 0 && copies > 1 && strategy.dp % copies == 0)
    strategy.hybridShard = strategy.dp / copies;
  if (!has("optimizer-cpu-offload"))
    return;
  strategy.offload = cost::Offload::Optimizer;
  std::string part = word("optimizer-offload-fraction");
  if (!part.empty() && part != "1" && part != "1.0")
    fail("--optimizer-offload-fraction " + part + "; expected 1");
}

void MegatronReader::readRecompute() {
  std::string kind = word("recompute-granularity");
  if (kind.empty() && has("recompute-activations"))
    kind = "selective";
  if (kind == "full" || kind == "selective")
    result.strategy.recompute = *symbolize<cost::Recompute>(kind);
  else if (!kind.empty())
    fail("--recompute-granularity " + kind + "; expected full or selective");
  if (word("recompute-method") == "block")
    fail("--recompute-method block recomputes some layers only; "
         "expected uniform");
  has("recompute-num-layers");
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
  bool hasExperts = flags.count("num-experts") > 0;
  for (const Flag &flag : all) {
    bool isLeftOut =
        (hasTwoStacks && flag.size == &ModelShape::layers) ||
        (hasExperts && flag.size == &ModelShape::feedForward) ||
        (flag.size == &ModelShape::kvHeads && !has("group-query-attention"));
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

void MegatronReader::readRest() {
  for (const char *precision : {"bf16", "fp16"})
    if (has(precision))
      result.precision = precision;
  auto format = flags.find("fp8-format");
  if (format != flags.end() && format->second == Words{"hybrid"}) {
    result.precision = "fp8";
    used.insert({"fp8-format", "fp8-recipe"});
    // dpc scales each tensor by its largest element ("tensorwise"). By default,
    // Megatron-LM uses delayed scaling.
    std::string recipe = has("fp8-recipe") ? word("fp8-recipe") : "delayed";
    if (recipe != "tensorwise")
      result.ignored.push_back("--fp8-recipe " + recipe);
  }
  result.usesSgd = word("optimizer") == "sgd";
  for (const auto &[flag, values] : flags)
    if (!used.count(flag))
      result.ignored.push_back("--" + flag);
}

Expected<Imported> MegatronReader::read() {
  for (auto step : {&MegatronReader::refuseOthers, &MegatronReader::readRanks,
                    &MegatronReader::readDegrees, &MegatronReader::readStages,
                    &MegatronReader::readExperts, &MegatronReader::readData,
                    &MegatronReader::readRecompute})
    if ((this->*step)(); !error.empty())
      return Error{error};
  result.strategy.microBatch = number("micro-batch-size", 0);
  result.globalBatch = number("global-batch-size", 0);
  readSizes();
  readRest();
  return finish();
}

Expected<Imported> readMegatron(const std::string &text, int64_t devices) {
  Words words = shellWords(text);
  Flags flags = flagsOf(words);
  bool isMegatron = std::ranges::any_of(flags, [](const auto &flag) {
    return flag.first.find("parallel-size") != std::string::npos ||
           flag.first == "micro-batch-size";
  });
  if (!isMegatron)
    return Error{"Megatron-LM's flags: none found; expected for example "
                 "--tensor-model-parallel-size or --micro-batch-size"};
  return MegatronReader(words, std::move(flags), devices).read();
}

Expected<Imported> readStrategy(const std::string &text, int64_t devices) {
  size_t first = text.find_first_not_of(" \t\r\n");
  bool isJson = first != std::string::npos && text[first] == '{';
  return isJson ? readDeepSpeed(text, devices) : readMegatron(text, devices);
}

} // namespace dpc::exports
