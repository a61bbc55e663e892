//===- FrameworkMemory.cpp - What frameworks keep of a step ---------------===//
#include "tools/dpc-validate/FrameworkMemory.h"

#include <algorithm>

namespace dpc::validate {

using model::Family;

namespace {

/// The sizes of a run as numbers of arithmetic.
struct Sizes {
  explicit Sizes(const PublishedRun &run);

  double layers, hidden, ffn, keys, heads, vocab, seq; ///< Of the model.
  double tp, pp, vpp, shards;                          ///< Of the strategy.
  double tokens, inFlight; ///< Of a micro-batch; of the first stage.
  bool isLlama;
  double across; ///< What sequence parallelism divides by.
};

Sizes::Sizes(const PublishedRun &run) {
  const model::ModelDims &d = run.dims;
  const cost::Strategy &s = run.strategy;
  hidden = double(d.hidden);
  ffn = double(d.ffn);
  heads = double(d.heads);
  keys = hidden / heads * double(d.kvHeads);
  vocab = double(d.vocab);
  seq = double(d.seq);
  tp = double(s.tp);
  pp = double(s.pp);
  vpp = double(s.vpp);
  layers = double((d.layers + s.pp - 1) / s.pp);
  shards = double((s.hybridShard > 1 ? s.hybridShard : s.dp) * s.cp);
  tokens = seq * double(s.microBatch) / double(s.cp);
  double microBatches =
      std::max(1.0, double(run.globalBatch / s.dp) / double(s.microBatch));
  inFlight = std::min(pp, microBatches);
  if (s.vpp > 1)
    inFlight *= 1 + (pp - 1) / (pp * vpp);
  isLlama = d.family == Family::llama;
  across = s.sp ? tp : 1;
}

/// Parameters of a rank; the head of a model on one stage is the embedding or
/// as large again.
double parametersOf(const Sizes &s, bool tied) {
  double matrices = (s.isLlama ? 3 : 2) * s.ffn;
  double layer = s.hidden * (2 * s.hidden + 2 * s.keys + matrices) / s.tp;
  double tables = tied || s.pp > 1 ? 1 : 2;
  return s.layers * layer + tables * s.vocab * s.hidden / s.tp;
}

/// Of one layer without its scores.
double activationsOf(const Sizes &s) {
  return s.tokens *
         ((s.isLlama ? 8 : 10) * s.hidden / s.across +
          (4 * s.hidden + 4 * s.keys + (s.isLlama ? 6 : 4) * s.ffn) / s.tp);
}

double scoresOf(const Sizes &s, const cost::Software &software) {
  if (software.attention == cost::AttentionKernels::Fused)
    return 0;
  return (software.attentionDropout ? 5 : 2) * s.heads * s.seq * s.tokens /
         s.tp;
}

/// The fuller of the first and the last stage.
double activationPeak(const Sizes &s, const PublishedRun &run) {
  double all = activationsOf(s);
  double scores = scoresOf(s, run.cluster.software);
  double kept = all + scores, again = 0;
  if (run.strategy.recompute == "full") {
    kept = 2 * s.tokens * s.hidden / s.across;
    again = all + scores;
  } else if (run.strategy.recompute == "selective") {
    kept = all;
    again = scores;
  }
  double head = 10 * s.tokens * s.vocab / s.tp;
  if (s.pp == 1)
    return s.layers * kept + std::max(again, head);
  return s.layers * kept +
         std::max((s.inFlight - 1) * s.layers * kept + again, again + head);
}

} // namespace

std::optional<double> frameworkMemory(const PublishedRun &run) {
  const cost::Software &software = run.cluster.software;
  if (!software.keepsMemory)
    return std::nullopt;
  bool isF16 = run.precision == "fp16";
  double gradients =
      isF16 ? software.gradientBytesF16 : software.gradientBytesBF16;
  double update = isF16 ? software.updateBytesF16 : software.updateBytesBF16;
  Sizes s(run);
  auto share = [&](int64_t stage) {
    return run.strategy.zero >= stage ? s.shards : 1.0;
  };
  double states = parametersOf(s, run.dims.tied) *
                  (2 / share(3) + gradients / share(2) + update / share(1));
  double bytes = states + software.activationSlack * activationPeak(s, run) +
                 software.reservedBytes;
  return std::min(bytes, run.cluster.groups.front().device.memoryBytes);
}

} // namespace dpc::validate
