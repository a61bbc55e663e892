//===- Elimination.cpp - Exact bucket elimination -------------------------===//
//
// To eliminate a node v with neighbours S, the solver replaces all factors of v
// by one factor over S:
//   table[x_S] = min over x_v of the sum of the factors of v
// The solver keeps the best x_v for each entry, to assign v once its neighbours
// are assigned. The node with the smallest table is eliminated first. A factor
// over one node is added to this node's costs at once, so that a hub with
// thousands of leaves is cheap.
//
//===----------------------------------------------------------------------===//

#include "cost-model/solve/Solvers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

namespace dpc::cost {

namespace {

using Table = std::vector<double>;

/// A function of the options of the nodes in `scope`. The index of an entry is
/// the sum of option * stride over these nodes.
struct Factor {
  std::vector<NodeId> scope;
  std::vector<uint64_t> strides;
  /// Copies of a state share tables. A table may be a matrix of the problem.
  std::shared_ptr<const Table> table;
  uint64_t base = 0; ///< The part of the index that comes from fixed nodes.
};

/// The nodes and factors that are not eliminated yet.
struct State {
  std::vector<Table> unary;
  std::vector<std::vector<NodeId>> neighbours; ///< Sorted.
  std::vector<std::vector<uint32_t>> factorsOf;
  std::vector<Factor> factors;
  std::vector<int64_t> weight; ///< Like `weights`, for the table that
                               ///< eliminating the node would build.
  std::vector<bool> isLive;
  size_t live = 0;
  /// A min-heap of the live nodes by weight. Outdated entries stay.
  std::vector<std::pair<int64_t, NodeId>> queue;
  double constant = 0;

  void push(NodeId node) {
    queue.emplace_back(weight[node], node);
    std::ranges::push_heap(queue, std::greater<>());
  }
  void changeWeight(NodeId node, int64_t delta) {
    weight[node] += delta;
    push(node);
  }
  NodeId lightest() {
    while (!isLive[queue.front().second] ||
           weight[queue.front().second] != queue.front().first) {
      std::ranges::pop_heap(queue, std::greater<>());
      queue.pop_back();
    }
    return queue.front().second;
  }
};

/// The best option of an eliminated node, for each combination of the options
/// of its neighbors.
struct Record {
  NodeId node;
  std::vector<NodeId> scope;
  std::vector<uint64_t> strides;
  std::vector<uint16_t> best;
};

class FactorSum;

class Eliminator {
public:
  Eliminator(const Problem &problem, const EliminationOptions &options,
             EliminationStats &stats)
      : problem(problem), options(options), stats(stats) {
    for (const Node &node : problem.nodes())
      weights.push_back(
          std::llround(std::log2(double(node.cost.size())) * 4096) + 1);
  }

  Expected<Solution> run();

private:
  /// Solves the remaining graph and sets `choice` for the live nodes. `value`
  /// is infinite if no choice is feasible. Returns false and sets `failure` if
  /// a limit is reached.
  bool solve(State &state, std::vector<uint32_t> &choice, double &value,
             uint64_t conditionings);
  bool condition(State &state, std::vector<uint32_t> &choice, double &value,
                 uint64_t conditionings);
  bool guess(State &state, NodeId hub, std::vector<uint32_t> &choice,
             double &value);
  std::vector<uint32_t> promising(const State &state, NodeId node) const;
  template <typename Visit>
  void forEachEntry(const std::vector<NodeId> &scope, FactorSum &sum,
                    Visit visit) const;
  State initialState() const;
  Record eliminate(State &state, NodeId node);
  void fix(State &state, NodeId node, uint32_t option) const;
  void addFactor(State &state, Factor factor) const;
  void removeNode(State &state, NodeId node) const;
  uint64_t numOptions(NodeId node) const {
    return problem.nodes()[node].cost.size();
  }
  double tableEntries(const State &state, NodeId node) const;

  const Problem &problem;
  const EliminationOptions &options;
  EliminationStats &stats;
  /// For each node, log2 of its options; fixed point makes sums exact.
  std::vector<int64_t> weights;
  /// Set if conditioning took too long. The options of nodes of large degree
  /// are then guessed.
  bool mayGuess = false;
  std::string failure;
};

/// The sum of several factors for the current options of the nodes in a scope.
class FactorSum {
public:
  FactorSum(const std::vector<const Factor *> &factors,
            const std::vector<NodeId> &scope, NodeId node);

  /// Returns the sum at option `x` of the node.
  double at(uint64_t x) const {
    double sum = 0;
    for (const Term &term : terms)
      sum += term.values[term.offset + x * term.nodeStride];
    return sum;
  }
  /// Moves to the next option at scope position `i`.
  void step(size_t i) {
    for (Term &term : terms)
      term.offset += term.scopeStrides[i];
  }
  void rewind(size_t i, uint64_t steps) {
    for (Term &term : terms)
      term.offset -= term.scopeStrides[i] * steps;
  }

private:
  struct Term {
    const double *values;
    uint64_t offset;
    uint64_t nodeStride = 0;
    std::vector<uint64_t> scopeStrides;
  };
  std::vector<Term> terms;
};

} // namespace

FactorSum::FactorSum(const std::vector<const Factor *> &factors,
                     const std::vector<NodeId> &scope, NodeId node) {
  for (const Factor *factor : factors) {
    Term term{factor->table->data(), factor->base, 0,
              std::vector<uint64_t>(scope.size(), 0)};
    for (size_t i = 0; i < factor->scope.size(); ++i) {
      if (factor->scope[i] == node) {
        term.nodeStride = factor->strides[i];
        continue;
      }
      auto it = std::lower_bound(scope.begin(), scope.end(), factor->scope[i]);
      term.scopeStrides[it - scope.begin()] = factor->strides[i];
    }
    terms.push_back(std::move(term));
  }
}

static bool insertSorted(std::vector<NodeId> &list, NodeId id) {
  auto it = std::lower_bound(list.begin(), list.end(), id);
  if (it != list.end() && *it == id)
    return false;
  list.insert(it, id);
  return true;
}

void Eliminator::addFactor(State &state, Factor factor) const {
  if (factor.scope.empty()) {
    state.constant += (*factor.table)[factor.base];
    return;
  }
  if (factor.scope.size() == 1) {
    Table &unary = state.unary[factor.scope[0]];
    for (uint64_t x = 0; x < unary.size(); ++x)
      unary[x] += (*factor.table)[factor.base + x * factor.strides[0]];
    return;
  }
  uint32_t id = static_cast<uint32_t>(state.factors.size());
  for (NodeId a : factor.scope) {
    state.factorsOf[a].push_back(id);
    for (NodeId b : factor.scope)
      if (a != b && insertSorted(state.neighbours[a], b))
        state.changeWeight(a, weights[b]);
  }
  state.factors.push_back(std::move(factor));
}

void Eliminator::removeNode(State &state, NodeId node) const {
  state.isLive[node] = false;
  --state.live;
  for (uint32_t id : state.factorsOf[node])
    for (NodeId other : state.factors[id].scope)
      if (other != node)
        std::erase(state.factorsOf[other], id);
  for (NodeId other : state.neighbours[node]) {
    std::vector<NodeId> &list = state.neighbours[other];
    list.erase(std::lower_bound(list.begin(), list.end(), node));
    state.changeWeight(other, -weights[node]);
  }
  for (uint32_t id : state.factorsOf[node])
    state.factors[id] = Factor();
  state.factorsOf[node].clear();
  state.neighbours[node].clear();
}

State Eliminator::initialState() const {
  State state;
  size_t count = problem.nodes().size();
  state.neighbours.resize(count);
  state.factorsOf.resize(count);
  state.weight.assign(count, 0);
  state.isLive.assign(count, true);
  state.live = count;
  for (NodeId id = 0; id < count; ++id) {
    state.unary.push_back(problem.nodes()[id].cost);
    state.push(id);
  }
  for (const Edge &edge : problem.edges()) {
    const CostMatrix &matrix = problem.matrices()[edge.matrix];
    // The problem outlives the state, so the matrix is not copied.
    std::shared_ptr<const Table> table(std::shared_ptr<const Table>(),
                                       &matrix.values);
    addFactor(state, Factor{{edge.producer, edge.consumer},
                            {matrix.columns, 1},
                            std::move(table)});
  }
  return state;
}

double Eliminator::tableEntries(const State &state, NodeId node) const {
  double entries = 1;
  for (NodeId other : state.neighbours[node])
    entries *= double(numOptions(other));
  return entries;
}

/// Visits all options of `scope`. The option of the first node changes fastest.
template <typename Visit>
void Eliminator::forEachEntry(const std::vector<NodeId> &scope, FactorSum &sum,
                              Visit visit) const {
  uint64_t entries = 1;
  for (NodeId node : scope)
    entries *= numOptions(node);
  std::vector<uint64_t> option(scope.size(), 0);
  for (uint64_t entry = 0; entry < entries; ++entry) {
    visit(entry);
    for (size_t i = 0; i < scope.size(); ++i) {
      if (++option[i] < numOptions(scope[i])) {
        sum.step(i);
        break;
      }
      sum.rewind(i, option[i] - 1);
      option[i] = 0;
    }
  }
}

Record Eliminator::eliminate(State &state, NodeId node) {
  Record record{node, state.neighbours[node], {}, {}};
  const std::vector<NodeId> &scope = record.scope;
  uint64_t entries = 1;
  for (NodeId other : scope) {
    record.strides.push_back(entries);
    entries *= numOptions(other);
  }
  stats.width = std::max<uint32_t>(stats.width, scope.size());
  stats.largestTable = std::max(stats.largestTable, entries);
  std::vector<const Factor *> factors;
  for (uint32_t id : state.factorsOf[node])
    factors.push_back(&state.factors[id]);
  FactorSum sum(factors, scope, node);
  const Table &unary = state.unary[node];
  auto table = std::make_shared<Table>(entries);
  record.best.resize(entries);
  forEachEntry(scope, sum, [&](uint64_t entry) {
    double best = forbidden;
    for (uint64_t x = 0; x < unary.size(); ++x) {
      double value = unary[x] + sum.at(x);
      if (value < best) {
        best = value;
        record.best[entry] = static_cast<uint16_t>(x);
      }
    }
    (*table)[entry] = best;
  });
  removeNode(state, node);
  addFactor(state, Factor{scope, record.strides, std::move(table)});
  return record;
}

/// Assigns `option` to a node, so that its factors lose one dimension.
void Eliminator::fix(State &state, NodeId node, uint32_t option) const {
  state.constant += state.unary[node][option];
  std::vector<Factor> reduced;
  for (uint32_t id : state.factorsOf[node]) {
    Factor factor = state.factors[id];
    size_t i = std::find(factor.scope.begin(), factor.scope.end(), node) -
               factor.scope.begin();
    factor.base += option * factor.strides[i];
    factor.scope.erase(factor.scope.begin() + i);
    factor.strides.erase(factor.strides.begin() + i);
    reduced.push_back(std::move(factor));
  }
  removeNode(state, node);
  for (Factor &factor : reduced)
    addFactor(state, std::move(factor));
}

/// Returns the options of a node by rising lower bound of their cost. The bound
/// is the cost if every factor chooses the options of the other nodes
/// independently (mini-buckets: Dechter and Rish, JACM 50(2), 2003).
std::vector<uint32_t> Eliminator::promising(const State &state,
                                            NodeId node) const {
  Table least = state.unary[node];
  for (uint32_t id : state.factorsOf[node]) {
    const Factor &factor = state.factors[id];
    std::vector<NodeId> others = factor.scope;
    std::erase(others, node);
    std::sort(others.begin(), others.end());
    FactorSum sum({&factor}, others, node);
    Table best(least.size(), forbidden);
    forEachEntry(others, sum, [&](uint64_t) {
      for (uint64_t x = 0; x < best.size(); ++x)
        best[x] = std::min(best[x], sum.at(x));
    });
    for (size_t x = 0; x < least.size(); ++x)
      least[x] += best[x];
  }
  std::vector<uint32_t> order;
  for (uint32_t x = 0; x < least.size(); ++x)
    if (least[x] != forbidden)
      order.push_back(x);
  std::ranges::stable_sort(order, {}, [&](uint32_t x) { return least[x]; });
  return order;
}

bool Eliminator::guess(State &state, NodeId hub, std::vector<uint32_t> &choice,
                       double &value) {
  value = forbidden;
  for (uint32_t option : promising(state, hub)) {
    if (stats.guesses == options.maxGuesses) {
      failure = "node " + std::to_string(hub) + " '" +
                problem.nodes()[hub].name + "' has edges to " +
                std::to_string(state.neighbours[hub].size()) +
                " others when the rest is solved, and none of " +
                std::to_string(options.maxGuesses) +
                " guesses leaves a solution; expected fewer options or edges "
                "per node";
      return false;
    }
    ++stats.guesses;
    State copy = state;
    fix(copy, hub, option);
    if (!solve(copy, choice, value, 1))
      return false;
    if (value != forbidden) {
      choice[hub] = option;
      return true;
    }
  }
  return true;
}

bool Eliminator::condition(State &state, std::vector<uint32_t> &choice,
                           double &value, uint64_t conditionings) {
  // The first on ties.
  NodeId hub = state.lightest();
  for (NodeId id = 0; id < state.isLive.size(); ++id)
    if (state.isLive[id] &&
        (state.neighbours[id].size() > state.neighbours[hub].size() ||
         (state.neighbours[id].size() == state.neighbours[hub].size() &&
          id < hub)))
      hub = id;
  uint64_t count = numOptions(hub);
  if (mayGuess)
    return guess(state, hub, choice, value);
  if (conditionings * count > options.maxConditionings)
    return false;
  ++stats.conditionedNodes;
  value = forbidden;
  std::vector<uint32_t> trial = choice;
  for (uint32_t option = 0; option < count; ++option) {
    if (state.unary[hub][option] == forbidden)
      continue;
    State copy = state;
    fix(copy, hub, option);
    double trialValue = forbidden;
    if (!solve(copy, trial, trialValue, conditionings * count))
      return false;
    if (trialValue < value) {
      value = trialValue;
      trial[hub] = option;
      choice = trial;
    }
  }
  return true;
}

bool Eliminator::solve(State &state, std::vector<uint32_t> &choice,
                       double &value, uint64_t conditionings) {
  std::vector<Record> records;
  while (state.live > 0) {
    NodeId node = state.lightest();
    if (tableEntries(state, node) > double(options.maxTableEntries))
      break;
    records.push_back(eliminate(state, node));
  }
  value = state.constant;
  if (state.live > 0 && !condition(state, choice, value, conditionings))
    return false;
  if (value == forbidden)
    return true;
  for (size_t i = records.size(); i-- > 0;) {
    const Record &record = records[i];
    uint64_t entry = 0;
    for (size_t k = 0; k < record.scope.size(); ++k)
      entry += choice[record.scope[k]] * record.strides[k];
    choice[record.node] = record.best[entry];
  }
  return true;
}

Expected<Solution> Eliminator::run() {
  State state = initialState();
  std::vector<uint32_t> choice(problem.nodes().size(), 0);
  double value = 0;
  if (!solve(state, choice, value, 1)) {
    mayGuess = true;
    state = initialState();
    if (!solve(state, choice, value, 1))
      return Error{failure};
  }
  if (value == forbidden)
    return Error{"every choice of options has an infinite cost"};
  return problem.verify(choice);
}

Expected<Solution> solveByElimination(const Problem &problem,
                                      const EliminationOptions &options,
                                      EliminationStats *stats) {
  DPC_TRY(problem.check());
  for (const Node &node : problem.nodes())
    if (node.cost.size() > UINT16_MAX)
      return Error{"node '" + node.name +
                   "': " + std::to_string(node.cost.size()) +
                   " options; expected at most " + std::to_string(UINT16_MAX)};
  EliminationStats local;
  return Eliminator(problem, options, stats ? *stats : local).run();
}

} // namespace dpc::cost
