//===- RankRowOps.cpp - Norms, attention, embeddings, optimizers ----------===//
#include "test/support/RankRowOps.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace dpc::test {

static double scalar(const HostArray *array) { return (*array)[0]; }

//===----------------------------------------------------------------------===//
// Softmax and norms
//===----------------------------------------------------------------------===//

static void evalSoftmax(Evaluation &e) {
  const HostArray &x = *e.operands[0];
  int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size(); row += n) {
    double top = x[row], sum = 0;
    for (int64_t i = 0; i < n; ++i)
      top = std::max(top, x[row + i]);
    for (int64_t i = 0; i < n; ++i)
      sum += e.results[0][row + i] = std::exp(x[row + i] - top);
    for (int64_t i = 0; i < n; ++i)
      e.results[0][row + i] /= sum;
  }
}

static void evalSoftmaxGrad(Evaluation &e) {
  const HostArray &y = *e.operands[0], &dy = *e.operands[1];
  int64_t n = y.shape.back();
  for (int64_t row = 0; row < y.size(); row += n) {
    double dot = 0;
    for (int64_t i = row; i < row + n; ++i)
      dot += y[i] * dy[i];
    for (int64_t i = row; i < row + n; ++i)
      e.results[0][i] = y[i] * (dy[i] - dot);
  }
}

static void evalTopK(Evaluation &e) {
  auto op = cast<TopKOp>(e.op);
  const HostArray &x = *e.operands[0];
  int64_t n = x.shape.back(), k = e.results[0].shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(x[row * n + i]))
        order.push_back(i);
    // Equal values keep their order. (stable_sort causes a warning.)
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      double p = x[row * n + a], q = x[row * n + b];
      return p == q ? a < b : op.getSmallest() ? p < q : p > q;
    });
    order.resize(std::max<size_t>(order.size(), k), -1);
    for (int64_t j = 0; j < k; ++j) {
      e.results[0][row * k + j] =
          order[j] < 0 ? kPadding : x[row * n + order[j]];
      e.results[1][row * k + j] = static_cast<double>(order[j]);
    }
  }
}

static void evalCumSum(Evaluation &e) {
  auto op = cast<CumSumOp>(e.op);
  const HostArray &x = *e.operands[0];
  int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size(); row += n) {
    double sum = 0;
    for (int64_t step = 0; step < n; ++step) {
      int64_t i = row + (op.getReverse() ? n - 1 - step : step);
      double next = sum + x[i];
      e.results[0][i] = op.getExclusive() ? sum : next;
      sum = next;
    }
  }
}

static void evalNorm(Evaluation &e) {
  auto op = cast<NormOp>(e.op);
  const HostArray &x = *e.operands[0];
  bool layer = op.getKind() == NormKind::layer;
  const HostArray *scale = op.getScale() ? e.operands[1] : nullptr;
  const HostArray *bias = op.getBias() ? e.operands.back() : nullptr;
  int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && layer; ++i)
      mean += x[row * n + i] / n;
    for (int64_t i = 0; i < n; ++i)
      square += std::pow(x[row * n + i] - mean, 2) / n;
    double rstd = 1 / std::sqrt(square + op.getEps().convertToDouble());
    e.results[1][row] = mean;
    e.results[2][row] = rstd;
    for (int64_t i = 0; i < n; ++i)
      e.results[0][row * n + i] =
          (x[row * n + i] - mean) * rstd * (scale ? (*scale)[i] : 1) +
          (bias ? (*bias)[i] : 0);
  }
}

static void evalNormGrad(Evaluation &e) {
  auto op = cast<NormGradOp>(e.op);
  const HostArray &x = *e.operands[0], &mean = *e.operands[1];
  const HostArray &rstd = *e.operands[2], &dy = *e.operands[3];
  const HostArray *scale = op.getScale() ? e.operands[4] : nullptr;
  bool layer = op.getKind() == NormKind::layer;
  int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; ++i) {
      double hat = (x[row * n + i] - mean[row]) * rstd[row];
      double g = dy[row * n + i] * (scale ? (*scale)[i] : 1);
      e.results[1][i] += dy[row * n + i] * hat;
      e.results[2][i] += dy[row * n + i];
      sum += layer ? g / n : 0;
      dot += g * hat / n;
    }
    for (int64_t i = 0; i < n; ++i) {
      double hat = (x[row * n + i] - mean[row]) * rstd[row];
      double g = dy[row * n + i] * (scale ? (*scale)[i] : 1);
      e.results[0][row * n + i] = rstd[row] * (g - sum - hat * dot);
    }
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

struct Heads {
  int64_t batch, heads, queries, depth, groups, keys, valueDepth;
};

static Heads headsOf(const HostArray &q, const HostArray &k,
                     const HostArray &v) {
  return {q.shape[0], q.shape[1], q.shape[2], q.shape[3],
          k.shape[1], k.shape[2], v.shape[3]};
}

/// Returns the mask's element for batch b, head h, query t and key s, or 0
/// without a mask.
static double maskAt(const HostArray *mask, int64_t b, int64_t h, int64_t t,
                     int64_t s) {
  if (!mask)
    return 0;
  std::vector<int64_t> strides = mask->strides(), index{b, h, t, s};
  int64_t at = 0;
  for (int64_t d = 0; d < 4; ++d)
    at += mask->shape[d] == 1 ? 0 : index[d] * strides[d];
  return (*mask)[at];
}

/// What becomes of scores before their softmax.
struct ScoreTerms {
  double scale;
  bool causal;
  std::optional<int64_t> window;
  const HostArray *mask;

  /// Returns scale * score + mask, or -inf where the position hides the key.
  double logit(double score, const std::vector<int64_t> &row, int64_t s,
               int64_t queries, int64_t keys) const {
    int64_t distance = row[2] + keys - queries - s;
    if ((causal && distance < 0) || (window && distance >= *window))
      return -std::numeric_limits<double>::infinity();
    return scale * score + maskAt(mask, row[0], row[1], row[2], s);
  }
};

template <typename Op>
static ScoreTerms termsOf(Op op, const Evaluation &e, unsigned mask) {
  ScoreTerms terms{op.getScale().convertToDouble(),
                   op.getCausal(),
                   {},
                   op.getMask() ? e.operands[mask] : nullptr};
  if constexpr (!std::is_same_v<Op, AttentionProbsOp> &&
                !std::is_same_v<Op, AttentionScoresGradOp>)
    terms.window = op.getWindow();
  return terms;
}

static HostArray scoresOf(const Heads &n, const HostArray &q,
                          const HostArray &k) {
  HostArray scores({n.batch, n.heads, n.queries, n.keys});
  int64_t i = 0;
  forEachIndex(scores.shape, [&](const std::vector<int64_t> &x) {
    int64_t group = x[1] / (n.heads / n.groups);
    for (int64_t d = 0; d < n.depth; ++d)
      scores[i] +=
          q[((x[0] * n.heads + x[1]) * n.queries + x[2]) * n.depth + d] *
          k[((x[0] * n.groups + group) * n.keys + x[3]) * n.depth + d];
    ++i;
  });
  return scores;
}

static void probsOf(const HostArray &scores, const ScoreTerms &terms,
                    HostArray &probs, HostArray &lse,
                    const HostArray *sinks = nullptr) {
  int64_t queries = scores.shape[2], keys = scores.shape[3], row = 0;
  std::vector<int64_t> rows(scores.shape.begin(), scores.shape.end() - 1);
  forEachIndex(rows, [&](const std::vector<int64_t> &x) {
    double none = -std::numeric_limits<double>::infinity();
    double sink = sinks ? (*sinks)[x[1]] : none, top = sink;
    for (int64_t s = 0; s < keys; ++s) {
      double l = terms.logit(scores[row * keys + s], x, s, queries, keys);
      probs[row * keys + s] = l;
      top = std::max(top, l);
    }
    // The result of a row without visible keys is 0.
    double shift = std::isinf(top) ? 0 : top, sum = std::exp(sink - shift);
    for (int64_t s = 0; s < keys; ++s)
      sum += probs[row * keys + s] = std::exp(probs[row * keys + s] - shift);
    for (int64_t s = 0; s < keys && sum > 0; ++s)
      probs[row * keys + s] /= sum;
    lse[row++] = top + std::log(sum);
  });
}

static void evalAttention(Evaluation &e) {
  auto op = cast<AttentionOp>(e.op);
  const HostArray &q = *e.operands[0], &k = *e.operands[1], &v = *e.operands[2];
  Heads n = headsOf(q, k, v);
  HostArray scores = scoresOf(n, q, k), probs(scores.shape);
  probsOf(scores, termsOf(op, e, 3), probs, e.results[1],
          op.getSinks() ? e.operands.back() : nullptr);
  int64_t i = 0;
  forEachIndex(e.results[0].shape, [&](const std::vector<int64_t> &x) {
    int64_t group = x[1] / (n.heads / n.groups);
    for (int64_t s = 0; s < n.keys; ++s)
      e.results[0][i] +=
          probs[((x[0] * n.heads + x[1]) * n.queries + x[2]) * n.keys + s] *
          v[((x[0] * n.groups + group) * n.keys + s) * n.valueDepth + x[3]];
    ++i;
  });
}

static void evalAttentionGrad(Evaluation &e) {
  auto op = cast<AttentionGradOp>(e.op);
  const HostArray &q = *e.operands[0], &k = *e.operands[1], &v = *e.operands[2];
  const HostArray &out = *e.operands[3], &lse = *e.operands[4];
  const HostArray &dout = *e.operands[5];
  ScoreTerms terms = termsOf(op, e, 6);
  Heads n = headsOf(q, k, v);
  HostArray scores = scoresOf(n, q, k);
  int64_t i = 0;
  forEachIndex(scores.shape, [&](const std::vector<int64_t> &x) {
    int64_t group = x[1] / (n.heads / n.groups), s = x[3];
    int64_t row = (x[0] * n.heads + x[1]) * n.queries + x[2];
    int64_t key = (x[0] * n.groups + group) * n.keys + s;
    double seen = terms.logit(scores[i++], x, s, n.queries, n.keys);
    double p = std::isinf(seen) ? 0 : std::exp(seen - lse[row]);
    double dp = 0, delta = 0;
    for (int64_t c = 0; c < n.valueDepth; ++c) {
      double g = dout[row * n.valueDepth + c];
      dp += g * v[key * n.valueDepth + c];
      delta += g * out[row * n.valueDepth + c];
      e.results[2][key * n.valueDepth + c] += p * g;
    }
    double ds = terms.scale * p * (dp - delta);
    for (int64_t d = 0; d < n.depth; ++d) {
      e.results[0][row * n.depth + d] += ds * k[key * n.depth + d];
      e.results[1][key * n.depth + d] += ds * q[row * n.depth + d];
    }
  });
}

static void evalScoresGrad(Evaluation &e) {
  auto op = cast<AttentionScoresGradOp>(e.op);
  const HostArray &scores = *e.operands[0], &lse = *e.operands[1];
  const HostArray &dprobs = *e.operands[2], &delta = *e.operands[3];
  ScoreTerms terms = termsOf(op, e, 4);
  int64_t i = 0, keys = scores.shape[3];
  forEachIndex(scores.shape, [&](const std::vector<int64_t> &x) {
    double p = std::exp(terms.logit(scores[i], x, x[3], scores.shape[2], keys) -
                        lse[i / keys]);
    e.results[0][i] = p;
    e.results[1][i] = terms.scale * p * (dprobs[i] - delta[i / keys]);
    ++i;
  });
}

static void addAttention(std::map<std::string, Handler> &table) {
  table["dpc.attention"] = evalAttention;
  table["dpc.attention_grad"] = evalAttentionGrad;
  table["dpc.attention_scores_grad"] = evalScoresGrad;
  table["dpc.attention_probs"] = [](Evaluation &e) {
    auto op = cast<AttentionProbsOp>(e.op);
    probsOf(*e.operands[0], termsOf(op, e, 1), e.results[0], e.results[1]);
  };
  table["dpc.rope"] = [](Evaluation &e) {
    const HostArray &x = *e.operands[0], &c = *e.operands[1];
    const HostArray &s = *e.operands[2];
    int64_t depth = x.shape.back(), half = depth / 2, table = c.size();
    bool inverse = cast<RopeOp>(e.op).getInverse();
    for (int64_t i = 0; i < x.size(); ++i) {
      int64_t at = i % depth, other = at < half ? i + half : i - half;
      double sign = (at < half) != inverse ? -1 : 1;
      int64_t sine = (inverse ? other : i) % table;
      e.results[0][i] = x[i] * c[i % table] + sign * x[other] * s[sine];
    }
  };
}

//===----------------------------------------------------------------------===//
// Embeddings and cross entropy
//===----------------------------------------------------------------------===//

/// Maps each global position on this rank to the local row.
static std::map<int64_t, int64_t> rowsByPosition(Evaluation &e, int64_t dim,
                                                 int64_t extent) {
  std::map<int64_t, int64_t> rows;
  for (auto [row, position] : llvm::enumerate(positionsFor(e, dim, extent)))
    if (position >= 0)
      rows[position] = static_cast<int64_t>(row);
  return rows;
}

static int64_t idOf(double value) {
  return std::isnan(value) ? -1 : static_cast<int64_t>(value);
}

static void evalEmbedding(Evaluation &e) {
  const HostArray &table = *e.operands[0], &ids = *e.operands[1];
  auto rows = rowsByPosition(e, 0, table.shape[0]);
  int64_t columns = table.shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    auto it = rows.find(idOf(ids[i]));
    for (int64_t c = 0; it != rows.end() && c < columns; ++c)
      e.results[0][i * columns + c] = table[it->second * columns + c];
  }
}

static void evalEmbeddingGrad(Evaluation &e) {
  const HostArray &ids = *e.operands[0], &dy = *e.operands[1];
  auto rows = rowsByPosition(e, 0, e.results[0].shape[0]);
  int64_t columns = e.results[0].shape[1];
  for (int64_t i = 0; i < ids.size(); ++i) {
    auto it = rows.find(idOf(ids[i]));
    for (int64_t c = 0; it != rows.end() && c < columns; ++c)
      e.results[0][it->second * columns + c] += dy[i * columns + c];
  }
}

/// Calls run(row, expert) for each row whose expert is on this rank. `expert`
/// is the local position.
template <typename F>
static void forEachExpertRow(Evaluation &e, int64_t experts, F &&run) {
  const HostArray &ids = *e.operands[1];
  auto local = rowsByPosition(e, 0, experts);
  for (int64_t r = 0; r < ids.size(); ++r)
    if (auto it = local.find(idOf(ids[r])); it != local.end())
      run(r, it->second);
}

/// Returns how many consecutive ids share a row of `rows`.
static int64_t sharesOf(const Evaluation &e, const HostArray &rows) {
  int64_t count = rows.size() / rows.shape[rows.rank() - 1];
  return e.operands[1]->size() / count;
}

static void evalExpertMatmul(Evaluation &e) {
  bool tb = cast<ExpertMatmulOp>(e.op).getTb();
  const HostArray &x = *e.operands[0], &w = *e.operands[2];
  int64_t k = w.shape[tb ? 2 : 1], n = w.shape[tb ? 1 : 2];
  int64_t shares = sharesOf(e, x);
  forEachExpertRow(e, w.shape[0], [&](int64_t r, int64_t expert) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        e.results[0][r * n + j] +=
            x[r / shares * k + l] *
            w[expert * k * n + (tb ? j * k + l : l * n + j)];
  });
}

static void evalExpertMatmulGrad(Evaluation &e) {
  const HostArray &a = *e.operands[0], &b = *e.operands[2];
  HostArray &dw = e.results[0];
  int64_t m = dw.shape[1], n = dw.shape[2];
  int64_t sharesA = sharesOf(e, a), sharesB = sharesOf(e, b);
  forEachExpertRow(e, dw.shape[0], [&](int64_t r, int64_t expert) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        dw[(expert * m + i) * n + j] +=
            a[r / sharesA * m + i] * b[r / sharesB * n + j];
  });
}

/// Adds to `sum` the rows of `tile`, which are at the positions of `rows` from
/// `begin` on, or all of `tile` if `share` is 0.
static void addTile(HostArray &sum, const HostArray &tile, int64_t share,
                    ArrayRef<int64_t> rows) {
  if (share == 0) {
    for (int64_t i = 0; i < sum.size(); ++i)
      sum[i] += tile[i];
    return;
  }
  int64_t width = tile.size() / tile.shape[0];
  for (auto [i, row] : llvm::enumerate(rows))
    for (int64_t c = 0; c < width; ++c)
      sum[row / share * width + c] += tile[i * width + c];
}

static void evalExpertTiles(Evaluation &e) {
  auto op = cast<ExpertTilesOp>(e.op);
  Block &body = op.getBody().front();
  const HostArray &ids = *e.operands[0];
  auto global = cast<RankedTensorType>(op.getGlobal());
  auto local = rowsByPosition(e, 0, localType(global).getDimSize(0));
  std::vector<std::pair<int64_t, int64_t>> order; // expert, row
  for (int64_t r = 0; r < ids.size(); ++r)
    if (auto it = local.find(idOf(ids[r])); it != local.end())
      order.emplace_back(it->second, r);
  std::sort(order.begin(), order.end());
  int64_t tileRows = op.getTileRows(), count = order.size();
  for (int64_t begin = 0; begin < count; begin += tileRows) {
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < std::min(begin + tileRows, count); ++i)
      rows.push_back(order[i].second);
    llvm::DenseMap<Value, HostArray> values;
    HostArray tileIds({tileRows});
    for (int64_t i = 0; i < tileRows; ++i)
      tileIds[i] = i < static_cast<int64_t>(rows.size()) ? ids[rows[i]] : -1;
    values[body.getArgument(0)] = tileIds;
    for (auto [i, share] : llvm::enumerate(op.getInShares())) {
      BlockArgument argument = body.getArgument(i + 1);
      auto shape = cast<RankedTensorType>(argument.getType()).getShape();
      const HostArray &whole = *e.operands[i + 1];
      HostArray tile({shape.begin(), shape.end()});
      int64_t width = share == 0 ? 0 : tile.size() / tileRows;
      for (auto [j, row] : llvm::enumerate(rows))
        for (int64_t c = 0; c < width; ++c)
          tile[j * width + c] = whole[row / share * width + c];
      values[argument] = share == 0 ? whole : tile;
    }
    evaluateBody(body, e.coordinates, values);
    for (auto [i, value, share] : llvm::enumerate(
             body.getTerminator()->getOperands(), op.getOutShares()))
      addTile(e.results[i], values[value], share, rows);
  }
}

static void evalCrossEntropySums(Evaluation &e) {
  const HostArray &logits = *e.operands[0], &top = *e.operands[1];
  auto columns = rowsByPosition(e, 1, logits.shape[1]);
  int64_t n = logits.shape[1];
  for (int64_t i = 0; i < logits.shape[0]; ++i) {
    for (int64_t v = 0; v < n; ++v)
      e.results[0][i] += std::exp(logits[i * n + v] - top[i]);
    auto it = columns.find(idOf((*e.operands[2])[i]));
    if (it != columns.end())
      e.results[1][i] = logits[i * n + it->second];
  }
}

static void evalCrossEntropyGrad(Evaluation &e) {
  const HostArray &logits = *e.operands[0], &labels = *e.operands[1];
  const HostArray &lse = *e.operands[2], &dloss = *e.operands[3];
  std::vector<int64_t> positions = positionsFor(e, 1, logits.shape[1]);
  int64_t n = logits.shape[1];
  for (int64_t i = 0; i < logits.shape[0]; ++i)
    for (int64_t v = 0; v < n; ++v) {
      double hit = positions[v] >= 0 && positions[v] == idOf(labels[i]);
      e.results[0][i * n + v] =
          (std::exp(logits[i * n + v] - lse[i]) - hit) * dloss[i];
    }
}

static void evalCrossEntropy(Evaluation &e) {
  const HostArray &logits = *e.operands[0], &labels = *e.operands[1];
  int64_t n = logits.shape[1];
  for (int64_t i = 0; i < logits.shape[0]; ++i) {
    double top = logits[i * n], sum = 0;
    for (int64_t v = 0; v < n; ++v)
      top = std::max(top, logits[i * n + v]);
    for (int64_t v = 0; v < n; ++v)
      sum += std::exp(logits[i * n + v] - top);
    double lse = top + std::log(sum);
    int64_t label = idOf(labels[i]);
    e.results[1][i] = lse;
    if (label !=
        static_cast<int64_t>(cast<CrossEntropyOp>(e.op).getIgnoreIndex()))
      e.results[0][i] = lse - logits[i * n + label];
  }
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

static void evalSumSquares(Evaluation &e) {
  for (const HostArray *input : e.operands)
    for (double x : input->data)
      e.results[0][0] += x * x;
}

/// If operand `apply` is false, copies the first operands to the results, so
/// that nothing is updated, and returns true.
static bool isSkipped(Evaluation &e, size_t apply) {
  if (e.operands.size() == apply || scalar(e.operands[apply]) != 0)
    return false;
  for (size_t i = 0; i < e.results.size(); ++i)
    e.results[i].data = e.operands[i]->data;
  return true;
}

static void evalAdamW(Evaluation &e) {
  auto op = cast<AdamWOp>(e.op);
  if (isSkipped(e, 7))
    return;
  double scale = scalar(e.operands[4]), lr = scalar(e.operands[5]);
  double count = scalar(e.operands[6]);
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  for (int64_t i = 0; i < e.results[0].size(); ++i) {
    double g = scale * (*e.operands[3])[i];
    double p =
        (*e.operands[0])[i] * (1 - lr * op.getWeightDecay().convertToDouble());
    double m = beta1 * (*e.operands[1])[i] + (1 - beta1) * g;
    double v = beta2 * (*e.operands[2])[i] + (1 - beta2) * g * g;
    double root = std::sqrt(v) / std::sqrt(1 - std::pow(beta2, count));
    e.results[0][i] = p - lr / (1 - std::pow(beta1, count)) * m /
                              (root + op.getEps().convertToDouble());
    e.results[1][i] = m;
    e.results[2][i] = v;
  }
}

static void evalSgd(Evaluation &e) {
  auto op = cast<SgdOp>(e.op);
  if (isSkipped(e, 6))
    return;
  double scale = scalar(e.operands[3]), lr = scalar(e.operands[4]);
  bool first = scalar(e.operands[5]) == 1;
  for (int64_t i = 0; i < e.results[0].size(); ++i) {
    double p = (*e.operands[0])[i];
    double g =
        scale * (*e.operands[2])[i] + op.getWeightDecay().convertToDouble() * p;
    double b =
        first ? g
              : op.getMomentum().convertToDouble() * (*e.operands[1])[i] + g;
    e.results[0][i] = p - lr * b;
    e.results[1][i] = b;
  }
}

void addRowOps(std::map<std::string, Handler> &table) {
  table["dpc.softmax"] = evalSoftmax;
  table["dpc.softmax_grad"] = evalSoftmaxGrad;
  table["dpc.topk"] = evalTopK;
  table["dpc.cumsum"] = evalCumSum;
  table["dpc.norm"] = evalNorm;
  table["dpc.norm_grad"] = evalNormGrad;
  addAttention(table);
  table["dpc.embedding"] = evalEmbedding;
  table["dpc.embedding_grad"] = evalEmbeddingGrad;
  table["dpc.expert_matmul"] = evalExpertMatmul;
  table["dpc.expert_matmul_grad"] = evalExpertMatmulGrad;
  table["dpc.expert_tiles"] = evalExpertTiles;
  table["dpc.cross_entropy"] = evalCrossEntropy;
  table["dpc.cross_entropy_sums"] = evalCrossEntropySums;
  table["dpc.cross_entropy_grad"] = evalCrossEntropyGrad;
  table["dpc.sum_squares"] = evalSumSquares;
  table["dpc.global_norm"] = [](Evaluation &e) {
    evalSumSquares(e);
    e.results[0][0] = std::sqrt(e.results[0][0]);
  };
  table["dpc.adamw"] = evalAdamW;
  table["dpc.sgd"] = evalSgd;
}

} // namespace dpc::test
