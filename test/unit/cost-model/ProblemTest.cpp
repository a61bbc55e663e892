#include "cost-model/solve/Problem.h"
#include "cost-model/solve/ProblemIO.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dpc;
using namespace dpc::cost;

static Problem twoNodes() {
  Problem problem;
  NodeId a = problem.addNode("a", {1, 2});
  NodeId b = problem.addNode("b", {3, 4, forbidden});
  problem.addEdge(a, b, CostMatrix{2, 3, {5, 0.5, 1, forbidden, 7, 2}});
  return problem;
}

TEST(Problem, VerifyRecomputesByHand) {
  Problem problem = twoNodes();
  ASSERT_TRUE(problem.check());
  Expected<Solution> solution = problem.verify({0, 1});
  ASSERT_TRUE(solution) << solution.message();
  EXPECT_DOUBLE_EQ(solution->objective, 1 + 4 + 0.5);
  EXPECT_DOUBLE_EQ(solution->lowerBound, 5.5);
}

TEST(Problem, VerifyNamesTheBrokenConstraint) {
  Problem problem = twoNodes();
  auto error = [&](std::vector<uint32_t> choice) {
    Expected<Solution> solution = problem.verify(choice);
    return solution ? std::string("none") : solution.message();
  };
  EXPECT_NE(error({0}).find("one per node"), std::string::npos);
  EXPECT_NE(error({2, 0}).find("(C1) node 0 'a'"), std::string::npos);
  EXPECT_NE(error({0, 2}).find("(C2) node 1 'b'"), std::string::npos);
  EXPECT_NE(error({1, 0}).find("(C2) edge 0"), std::string::npos);
  EXPECT_EQ(error({0, 0}), "none");
}

TEST(Problem, CheckNamesTheBrokenInput) {
  auto errorOf = [](auto change) {
    Problem problem;
    change(problem);
    Status status = problem.check();
    return status ? std::string("none") : status.message();
  };
  EXPECT_NE(errorOf([](Problem &p) { p.addNode("x", {}); }).find("no options"),
            std::string::npos);
  EXPECT_NE(
      errorOf([](Problem &p) { p.addNode("x", {std::nan("")}); }).find("NaN"),
      std::string::npos);
  EXPECT_NE(errorOf([](Problem &p) {
              p.addNode("x", {forbidden});
            }).find("every option is forbidden"),
            std::string::npos);
  EXPECT_NE(errorOf([](Problem &p) {
              p.addNode("x", {1});
              p.addEdge(0, 0, CostMatrix{1, 1, {0}});
            }).find("two different ids"),
            std::string::npos);
  EXPECT_NE(errorOf([](Problem &p) {
              p.addNode("x", {1});
              p.addNode("y", {1, 2});
              p.addEdge(0, 1, CostMatrix{2, 1, {0, 0}});
            }).find("a matrix of 2 x 1; expected 1 x 2"),
            std::string::npos);
  EXPECT_NE(errorOf([](Problem &p) {
              p.addNode("x", {1});
              p.addNode("y", {1});
              p.addEdge(0, 1, MatrixId(4));
            }).find("matrix 4"),
            std::string::npos);
}

TEST(ProblemIO, RoundTrips) {
  Problem problem = twoNodes();
  std::string text = writeProblem(problem);
  Expected<Problem> read = readProblem(text);
  ASSERT_TRUE(read) << read.message();
  EXPECT_TRUE(read->check());
  EXPECT_EQ(writeProblem(*read), text);
  EXPECT_EQ(read->nodes()[1].cost[2], forbidden);
}

TEST(ProblemIO, BadFormsAreOneLine) {
  for (const char *text :
       {"{}", "[]", "{\"version\": 1, \"nodes\": 3}",
        R"({"version": 1, "nodes": [{"name": "a"}], "matrices": [],
            "edges": []})",
        R"({"version": 1, "nodes": [], "matrices": [], "edges": [[0, 1]]})",
        R"({"version": 1, "nodes": [{"name": "a", "cost": ["x"]}],
            "matrices": [], "edges": []})"}) {
    Expected<Problem> problem = readProblem(text);
    ASSERT_FALSE(problem) << text;
    EXPECT_NE(problem.message().find("expected"), std::string::npos);
  }
}
