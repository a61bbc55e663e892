//===- ReadSimulated.cpp - A strategy of Galvatron or Calculon ------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>
#include <charconv>

namespace dpc::exports {

namespace {

class GalvatronReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  /// The number that all layers have. Fails if they differ.
  int64_t ofLayers(const std::string &key, int64_t missing, int64_t least,
                   const char *strategyKey);
  void readSharding();
};

class CalculonReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  void readOffload();
  void readRecompute();
  void readPrecision();
};

} // namespace

int64_t GalvatronReader::ofLayers(const std::string &key, int64_t missing,
                                  int64_t least, const char *strategyKey) {
  if (!has(key))
    return missing;
  std::string text = word(key), first = text.substr(0, text.find(','));
  std::string rest = text + ",";
  for (size_t end; (end = rest.find(',')) != std::string::npos;
       rest.erase(0, end + 1))
    if (rest.substr(0, end) != first) {
      refuse(key, strategyKey,
             "differs between layers; expected one number for all layers");
      return missing;
    }
  int64_t value = 0;
  const char *end = first.data() + first.size();
  if (std::from_chars(first.data(), end, value).ptr != end || value < least) {
    fail(key, "; expected whole numbers >= " + std::to_string(least));
    return missing;
  }
  return value;
}

void GalvatronReader::readSharding() {
  cost::Strategy &strategy = result.strategy;
  std::string usual = word("default_dp_type", "ddp");
  if (usual != "ddp" && usual != "zero2" && usual != "zero3")
    fail("default_dp_type", "; expected ddp, zero2 or zero3");
  if (ofLayers("dp_types_enc", 0, 0, "zero") == 1 || usual == "zero3")
    strategy.zero = 3;
  else
    strategy.zero = usual == "zero2" ? 2 : 0;
}

Expected<Imported> GalvatronReader::read() {
  cost::Strategy &strategy = result.strategy;
  bool isUlysses = ofLayers("use_sp", 0, 0, "cp_kind") == 1;
  int64_t shards = ofLayers("tp_sizes_enc", 1, 1, "tp");
  int64_t ring = ofLayers("cp_sizes_enc", 1, 1, "cp");
  if (isUlysses && ring > 1)
    fail("cp_sizes_enc", "is a ring besides Ulysses; expected one of them");
  setDegrees(isUlysses ? 1 : shards, number("pp_deg", 1),
             isUlysses ? shards : ring);
  if (isUlysses && strategy.cp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  readSharding();
  strategy.ep = ofLayers("ep_sizes_enc", 1, 1, "ep");
  checkExpertTensor("tp_of_ep_sizes_enc",
                    ofLayers("tp_of_ep_sizes_enc", strategy.tp, 1, "ep"));
  if (ofLayers("checkpoint", 0, 0, "recompute") == 1)
    strategy.recompute = cost::Recompute::Full;
  if (word("pipeline_type", "pipedream_flush") == "gpipe" && strategy.pp > 1)
    strategy.schedule = cost::ScheduleKind::GPipe;
  setBatch(number("global_bsz", 0), 0, number("chunks", 1));
  for (const char *key : {"vtp", "vsp", "vcp", "embed_sdp", "vocab_sdp"})
    has(key);
  return finish();
}

void CalculonReader::readOffload() {
  bool optimizer = isTrue("optimizer_offload");
  if (isTrue("weight_offload"))
    result.strategy.offload =
        optimizer ? cost::Offload::All : cost::Offload::Parameters;
  else if (optimizer)
    result.strategy.offload = cost::Offload::Optimizer;
  if (isTrue("activations_offload"))
    refuse("activations_offload", "offload",
           "offloads activations; expected false");
}

void CalculonReader::readRecompute() {
  std::string kind = word("activation_recompute", "none");
  auto recompute =
      symbolize<cost::Recompute>(kind == "attn_only" ? "selective" : kind);
  if (!recompute)
    fail("activation_recompute", "; expected none, attn_only or full");
  result.strategy.recompute = recompute.value_or(cost::Recompute::None);
}

/// Calculon's float16 stands for all types of two bytes.
void CalculonReader::readPrecision() {
  std::string type = word("datatype", "float16");
  result.precision = type == "float32"  ? "fp32"
                     : type == "float8" ? "fp8"
                                        : "bf16";
}

Expected<Imported> CalculonReader::read() {
  cost::Strategy &strategy = result.strategy;
  if (auto ranks = findNumber("num_procs"))
    setDevices("num_procs", *ranks);
  setDegrees(number("tensor_par", 1), number("pipeline_par", 1), 1);
  if (int64_t data = number("data_par", strategy.dp);
      data != strategy.dp && asked.keys.empty())
    fail("data_par", "; expected " + std::to_string(strategy.dp) +
                         ", which is num_procs / tensor_par / pipeline_par");
  strategy.vpp = number("pipeline_interleaving", 1);
  if (strategy.pp == 1)
    strategy.vpp = 1;
  if (strategy.vpp > 1)
    strategy.schedule = cost::ScheduleKind::Interleaved;
  strategy.zero = isTrue("optimizer_sharding") ? 1 : 0;
  strategy.sp = word("tensor_par_comm_type", "ar") != "ar" && strategy.tp > 1;
  if (word("tensor_par_overlap", "none") != "none" && strategy.tp > 1)
    strategy.tpOverlap = cost::TpOverlap::Chunked;
  readOffload();
  readRecompute();
  readPrecision();
  setBatch(number("batch_size", 0), number("microbatch_size", 0), 0);
  return finish();
}

const ReaderOf galvatronReader = {
    "a strategy of Galvatron",
    [](const FileSettings &file) {
      return file.syntax == Syntax::Json && file.has("pp_deg") &&
             file.has("tp_sizes_enc");
    },
    [](const FileSettings &file, const AskedStrategy &asked) {
      return GalvatronReader(file, asked).read();
    }};

const ReaderOf calculonReader = {
    "an execution for Calculon",
    [](const FileSettings &file) {
      return file.syntax == Syntax::Json && file.has("tensor_par") &&
             file.has("pipeline_par");
    },
    [](const FileSettings &file, const AskedStrategy &asked) {
      return CalculonReader(file, asked).read();
    }};

} // namespace dpc::exports
