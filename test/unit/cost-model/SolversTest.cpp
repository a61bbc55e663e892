#include "cost-model/solve/Solvers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

/// Costs are small integers, so that sums are exact in any order.
static double randomCost(std::mt19937 &random, bool allowForbidden) {
  if (allowForbidden && random() % 8 == 0)
    return forbidden;
  return double(random() % 20);
}

static CostMatrix randomMatrix(std::mt19937 &random, size_t rows,
                               size_t columns, bool allowForbidden) {
  CostMatrix matrix{uint32_t(rows), uint32_t(columns), {}};
  for (size_t i = 0; i < rows * columns; ++i)
    matrix.values.push_back(randomCost(random, allowForbidden));
  return matrix;
}

static Problem randomProblem(std::mt19937 &random, size_t numNodes,
                             size_t maxOptions, bool allowForbidden) {
  Problem problem;
  for (size_t id = 0; id < numNodes; ++id) {
    Node node;
    node.name = "n" + std::to_string(id);
    for (size_t x = 0, count = 1 + random() % maxOptions; x < count; ++x)
      node.cost.push_back(randomCost(random, allowForbidden && x > 0));
    problem.addNode(std::move(node));
  }
  size_t numEdges = numNodes > 1 ? random() % (2 * numNodes) : 0;
  for (size_t e = 0; e < numEdges; ++e) {
    NodeId a = random() % numNodes, b = random() % numNodes;
    if (a != b)
      problem.addEdge(a, b,
                      problem.addMatrix(randomMatrix(
                          random, problem.nodes()[a].cost.size(),
                          problem.nodes()[b].cost.size(), allowForbidden)));
  }
  return problem;
}

/// Solves by exhaustive search, without Problem::verify.
static double exhaustiveOptimum(const Problem &problem) {
  std::vector<uint32_t> choice(problem.nodes().size(), 0);
  double best = forbidden;
  for (bool isDone = false; !isDone;) {
    double objective = 0;
    for (size_t id = 0; id < choice.size(); ++id)
      objective += problem.nodes()[id].cost[choice[id]];
    for (const Edge &edge : problem.edges())
      objective += problem.matrices()[edge.matrix].at(choice[edge.producer],
                                                      choice[edge.consumer]);
    best = std::min(best, objective);
    isDone = true;
    for (size_t id = choice.size(); isDone && id-- > 0;) {
      isDone = ++choice[id] == problem.nodes()[id].cost.size();
      if (isDone)
        choice[id] = 0;
    }
  }
  return best;
}

TEST(Elimination, EqualsExhaustiveSearchOnRandomGraphs) {
  std::mt19937 random(1);
  int infeasible = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Problem problem =
        randomProblem(random, 1 + random() % 7, 4, trial % 2 == 1);
    double optimum = exhaustiveOptimum(problem);
    Expected<Solution> solution = solveByElimination(problem);
    ASSERT_EQ(optimum, solution ? solution->objective : forbidden) << trial;
    infeasible += !solution;
  }
  EXPECT_GT(infeasible, 0);
  EXPECT_LT(infeasible, 200);
}

TEST(Elimination, ConditioningEqualsExhaustiveSearch) {
  std::mt19937 random(2);
  uint32_t conditioned = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Problem problem =
        randomProblem(random, 2 + random() % 6, 3, trial % 2 == 1);
    EliminationOptions options;
    options.maxTableEntries = 2;
    EliminationStats stats;
    Expected<Solution> solution = solveByElimination(problem, options, &stats);
    ASSERT_EQ(exhaustiveOptimum(problem),
              solution ? solution->objective : forbidden)
        << trial;
    conditioned += stats.conditionedNodes;
    EXPECT_LE(stats.largestTable, 2u);
  }
  EXPECT_GT(conditioned, 100u);
}

/// If conditioning is off, the solver still finds a solution if one exists, and
/// its objective has a small error.
TEST(Elimination, GuessesAreFeasibleAndMostlyGood) {
  std::mt19937 random(8);
  int guessed = 0, optimal = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Problem problem =
        randomProblem(random, 3 + random() % 5, 3, trial % 2 == 1);
    double optimum = exhaustiveOptimum(problem);
    EliminationOptions options{2, /*maxConditionings=*/1,
                               /*maxGuesses=*/100000};
    EliminationStats stats;
    Expected<Solution> solution = solveByElimination(problem, options, &stats);
    ASSERT_EQ(optimum != forbidden, bool(solution)) << trial;
    if (!solution)
      continue;
    EXPECT_GE(solution->objective, optimum);
    guessed += stats.guesses > 0;
    optimal += stats.guesses > 0 && solution->objective == optimum;
  }
  EXPECT_GT(guessed, 50);
  EXPECT_GT(optimal, guessed * 6 / 10);
}

TEST(Elimination, TiesGoToTheLowestOption) {
  Problem problem;
  MatrixId zero = problem.addMatrix(CostMatrix{3, 3, std::vector<double>(9)});
  for (int i = 0; i < 5; ++i)
    problem.addNode("n", {0, 0, 0});
  for (NodeId i = 1; i < 5; ++i)
    problem.addEdge(i - 1, i, zero);
  Expected<Solution> solution = solveByElimination(problem);
  ASSERT_TRUE(solution) << solution.message();
  EXPECT_EQ(solution->choice, std::vector<uint32_t>(5, 0));
}

TEST(Elimination, FailsByNameWhenTooWide) {
  Problem problem;
  for (int i = 0; i < 12; ++i)
    problem.addNode("node" + std::to_string(i), {1, 2, 3, 4});
  MatrixId shared =
      problem.addMatrix(CostMatrix{4, 4, std::vector<double>(16)});
  for (NodeId a = 0; a < 12; ++a)
    for (NodeId b = a + 1; b < 12; ++b)
      problem.addEdge(a, b, shared);
  EliminationOptions options{64, /*maxConditionings=*/16, /*maxGuesses=*/2};
  Expected<Solution> solution = solveByElimination(problem, options);
  ASSERT_FALSE(solution);
  EXPECT_THAT(solution.message(), HasSubstr("'node"));
  EXPECT_THAT(solution.message(), HasSubstr("none of 2 guesses"));
  // With conditioning, the solution of the clique is exact.
  options.maxConditionings = 1 << 20;
  EXPECT_TRUE(solveByElimination(problem, options));
}

/// Returns a problem with the shape of a large transformer: layers of 10 nodes
/// with a residual connection, a hub that all layers read, and shared matrices.
static Problem transformer(std::mt19937 &random, int layers, size_t options,
                           bool withHub) {
  Problem problem;
  std::vector<MatrixId> matrices;
  matrices.reserve(10);
  for (int i = 0; i < 10; ++i)
    matrices.push_back(problem.addMatrix(
        randomMatrix(random, options, options, /*allowForbidden=*/false)));
  auto node = [&](const std::string &name) {
    std::vector<double> cost;
    cost.reserve(options);
    for (size_t x = 0; x < options; ++x)
      cost.push_back(double(random() % 50));
    return problem.addNode(name, std::move(cost));
  };
  NodeId hub = node("embedding"), residual = node("input");
  for (int layer = 0; layer < layers; ++layer) {
    NodeId last = residual;
    for (int i = 0; i < 9; ++i) {
      NodeId next = node("op");
      problem.addEdge(last, next, matrices[i]);
      last = next;
    }
    NodeId sum = node("add");
    problem.addEdge(last, sum, matrices[9]);
    problem.addEdge(residual, sum, matrices[0]);
    residual = sum;
    if (withHub)
      problem.addEdge(hub, sum, matrices[1]);
  }
  return problem;
}

TEST(Elimination, TwentyThousandNodesHaveSmallTables) {
  std::mt19937 random(5);
  Problem problem = transformer(random, 2000, 8, /*withHub=*/true);
  ASSERT_GT(problem.nodes().size(), 20000u);
  EliminationStats stats;
  Expected<Solution> solution = solveByElimination(problem, {}, &stats);
  ASSERT_TRUE(solution) << solution.message();
  EXPECT_LE(stats.width, 3u);
  EXPECT_EQ(stats.guesses, 0u);
}

TEST(Elimination, AHubWithManyLeavesHasSmallTables) {
  Problem problem;
  NodeId hub = problem.addNode("hub", {0, 1, 2, 3});
  MatrixId shared = problem.addMatrix(
      CostMatrix{4, 4, {0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0}});
  for (int i = 0; i < 20000; ++i)
    problem.addEdge(hub, problem.addNode("leaf", {1, 0.5, 1, 1}), shared);
  EliminationStats stats;
  Expected<Solution> solution = solveByElimination(problem, {}, &stats);
  ASSERT_TRUE(solution) << solution.message();
  EXPECT_EQ(solution->choice[hub], 1u);
  EXPECT_DOUBLE_EQ(solution->objective, 1 + 20000 * 0.5);
  EXPECT_EQ(stats.width, 1u);
}
