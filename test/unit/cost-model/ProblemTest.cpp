#include "cost-model/solve/Problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

static Problem twoNodes() {
  Problem problem;
  NodeId a = problem.addNode("a", {1, 2});
  NodeId b = problem.addNode("b", {3, 4, forbidden});
  problem.addEdge(a, b,
                  problem.addMatrix({2, 3, {5, 0.5, 1, forbidden, 7, 2}}));
  return problem;
}

TEST(Problem, VerifyRecomputesByHand) {
  Problem problem = twoNodes();
  ASSERT_TRUE(problem.check());
  Expected<Solution> solution = problem.verify({0, 1});
  ASSERT_TRUE(solution) << solution.message();
  EXPECT_DOUBLE_EQ(solution->objective, 1 + 4 + 0.5);
}

TEST(Problem, VerifyNamesTheBrokenConstraint) {
  Problem problem = twoNodes();
  auto error = [&](std::vector<uint32_t> choice) {
    Expected<Solution> solution = problem.verify(choice);
    return solution ? std::string("none") : solution.message();
  };
  EXPECT_THAT(error({0}), HasSubstr("one per node"));
  EXPECT_THAT(error({2, 0}), HasSubstr("(C1) node 0 'a'"));
  EXPECT_THAT(error({0, 2}), HasSubstr("(C2) node 1 'b'"));
  EXPECT_THAT(error({1, 0}), HasSubstr("(C2) edge 0"));
  EXPECT_EQ(error({0, 0}), "none");
}

TEST(Problem, CheckNamesTheBrokenInput) {
  auto expectError = [](std::vector<std::vector<double>> nodes,
                        const char *message) {
    Problem problem;
    for (std::vector<double> &cost : nodes)
      problem.addNode("x", std::move(cost));
    Status status = problem.check();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  expectError({{}}, "no options");
  expectError({{std::nan("")}}, "NaN");
  expectError({{forbidden}}, "every option is forbidden");
}

TEST(Problem, CheckNamesTheBrokenEdge) {
  auto expectError = [](NodeId consumer, MatrixId matrix, const char *message) {
    Problem problem;
    problem.addNode("x", {1});
    problem.addNode("y", {1, 2});
    problem.addMatrix({2, 1, {0, 0}});
    problem.addEdge(0, consumer, matrix);
    Status status = problem.check();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  expectError(0, 0, "two different ids");
  expectError(1, 0, "a matrix of 2 x 1; expected 1 x 2");
  expectError(1, 4, "matrix 4");
}
