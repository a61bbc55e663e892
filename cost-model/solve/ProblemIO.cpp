//===- ProblemIO.cpp - Problems as JSON -----------------------------------===//

#include "cost-model/solve/ProblemIO.h"
#include "runtime/base/Json.h"

namespace dpc::cost {

using nlohmann::json;

/// Infinity has no JSON number: null stands for it.
static json costsToJson(const std::vector<double> &costs) {
  json array = json::array();
  for (double cost : costs)
    array.push_back(cost == forbidden ? json() : json(cost));
  return array;
}

std::string writeProblem(const Problem &problem) {
  nlohmann::ordered_json root;
  root["version"] = 1;
  root["nodes"] = json::array();
  for (const Node &node : problem.nodes())
    root["nodes"].push_back(
        {{"name", node.name}, {"cost", costsToJson(node.cost)}});
  root["matrices"] = json::array();
  for (const CostMatrix &matrix : problem.matrices())
    root["matrices"].push_back({{"rows", matrix.rows},
                                {"columns", matrix.columns},
                                {"values", costsToJson(matrix.values)}});
  root["edges"] = json::array();
  for (const Edge &edge : problem.edges())
    root["edges"].push_back({edge.producer, edge.consumer, edge.matrix});
  return root.dump() + "\n";
}

static void readCosts(JsonFields &fields, const std::string &key,
                      std::vector<double> &costs, JsonErrors &errors) {
  const char *expected = "an array of numbers and nulls";
  const json *array = fields.required(key, expected);
  if (!array)
    return;
  if (!array->is_array()) {
    errors.report(fields.path(key), "value " + showJson(*array), expected);
    return;
  }
  for (const json &entry : *array) {
    if (!entry.is_null() && !entry.is_number())
      errors.report(fields.path(key), "value " + showJson(entry), expected);
    else
      costs.push_back(entry.is_null() ? forbidden : entry.get<double>());
  }
}

static void readNode(const json &entry, const std::string &where,
                     Problem &problem, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  Node node;
  if (const json *name = fields.required("name", "a string")) {
    if (name->is_string())
      node.name = name->get<std::string>();
    else
      errors.report(fields.path("name"), showJson(*name), "a string");
  }
  readCosts(fields, "cost", node.cost, errors);
  fields.finish();
  problem.addNode(std::move(node));
}

static void readMatrix(const json &entry, const std::string &where,
                       Problem &problem, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  CostMatrix matrix;
  int64_t rows = 0, columns = 0;
  fields.integer("rows", rows, 1, 1 << 20);
  fields.integer("columns", columns, 1, 1 << 20);
  readCosts(fields, "values", matrix.values, errors);
  fields.finish();
  matrix.rows = static_cast<uint32_t>(rows);
  matrix.columns = static_cast<uint32_t>(columns);
  problem.addMatrix(std::move(matrix));
}

static void readEdge(const json &entry, const std::string &where,
                     Problem &problem, JsonErrors &errors) {
  const char *expected = "[producer, consumer, matrix], three ids";
  bool isValid = entry.is_array() && entry.size() == 3;
  for (size_t i = 0; isValid && i < 3; ++i)
    isValid = entry[i].is_number_unsigned() && entry[i] <= UINT32_MAX;
  if (!isValid) {
    errors.report(where, "value " + showJson(entry), expected);
    return;
  }
  problem.addEdge(entry[0].get<NodeId>(), entry[1].get<NodeId>(),
                  entry[2].get<MatrixId>());
}

/// Calls `read` on every element of the array `key`.
template <typename Read>
static void forEach(JsonFields &fields, const std::string &key,
                    JsonErrors &errors, Read read) {
  const json *array = fields.required(key, "an array");
  if (array && !array->is_array())
    errors.report(fields.path(key), "value " + showJson(*array), "an array");
  for (size_t i = 0; array && !errors && i < array->size(); ++i)
    read((*array)[i], fields.path(key) + "[" + std::to_string(i) + "]");
}

Expected<Problem> readProblem(const std::string &text) {
  Expected<json> root = parseJson(text, "problem");
  if (!root)
    return Error{root.message()};
  JsonErrors errors;
  JsonFields fields(*root, "problem", errors);
  Problem problem;
  int64_t version = 0;
  fields.integer("version", version, 1, 1);
  forEach(fields, "nodes", errors,
          [&](const json &e, const std::string &where) {
            readNode(e, where, problem, errors);
          });
  forEach(fields, "matrices", errors,
          [&](const json &e, const std::string &where) {
            readMatrix(e, where, problem, errors);
          });
  forEach(fields, "edges", errors,
          [&](const json &e, const std::string &where) {
            readEdge(e, where, problem, errors);
          });
  fields.finish();
  if (errors)
    return Error{errors.status().message()};
  return problem;
}

} // namespace dpc::cost
