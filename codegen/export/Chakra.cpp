//===- Chakra.cpp - Execution traces for ASTRA-sim ------------------------===//
#include "codegen/export/Chakra.h"

#include "chakra.pb.h"

#include <google/protobuf/util/delimited_message_util.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace dpc::exports {

namespace proto = ChakraProtoMsg;

namespace {

class RankWriter {
public:
  RankWriter(const rt::Plan &plan, int rank,
             std::map<std::vector<int>, std::string> &groups)
      : plan(plan), rank(rank), groups(groups) {}
  std::string write(const rt::TraceLane *lanes);

private:
  const rt::Plan &plan;
  int rank;
  std::map<std::vector<int>, std::string> &groups; ///< Names, by ranks.
  std::map<int, uint64_t> signalled;               ///< Nodes, by event.
  std::array<int64_t, rt::kNumQueues> last{-1, -1, -1};

  proto::Node nodeOf(const rt::TraceEvent &event, uint64_t id);
  void describe(proto::Node &node, const rt::TraceEvent &event);
  void describeCollective(proto::Node &node, const rt::OpVariant &op,
                          proto::CollectiveCommType type, int64_t bytes);
  int64_t exchangedBytes(const rt::ExpertTilesOp &op) const;
  void describeMessage(proto::Node &node, int peer, int buffer, int64_t tag,
                       bool isSend);
  int64_t bytesOf(const std::vector<int> &buffers) const;
  const std::string &nameOfGroup(const rt::OpVariant &op);
};

} // namespace

static proto::AttributeProto &add(proto::Node &node, const char *name) {
  proto::AttributeProto &attribute = *node.add_attr();
  attribute.set_name(name);
  return attribute;
}

int64_t RankWriter::bytesOf(const std::vector<int> &buffers) const {
  int64_t bytes = 0;
  for (int buffer : buffers)
    bytes += plan.buffers[static_cast<size_t>(buffer)].bytes;
  return bytes;
}

const std::string &RankWriter::nameOfGroup(const rt::OpVariant &op) {
  const rt::Group &group = plan.groups[static_cast<size_t>(rt::groupOf(op))];
  const std::vector<int> &ranks = rt::cellOf(group, rank);
  return groups.try_emplace(ranks, std::to_string(groups.size())).first->second;
}

void RankWriter::describeCollective(proto::Node &node, const rt::OpVariant &op,
                                    proto::CollectiveCommType type,
                                    int64_t bytes) {
  node.set_type(proto::COMM_COLL_NODE);
  add(node, "comm_type").set_int64_val(type);
  add(node, "comm_size").set_int64_val(bytes);
  add(node, "pg_name").set_string_val(nameOfGroup(op));
}

/// Returns the bytes of the rows of a rank that are exchanged, both ways.
int64_t RankWriter::exchangedBytes(const rt::ExpertTilesOp &op) const {
  int64_t ofTile = bytesOf({op.tileIds});
  for (const auto *tiles : {&op.takes, &op.adds})
    for (const rt::TileBuffer &one : *tiles)
      if (one.shares > 0)
        ofTile += bytesOf({one.tile});
  return ofTile / op.tileRows * op.rows;
}

void RankWriter::describeMessage(proto::Node &node, int peer, int buffer,
                                 int64_t tag, bool isSend) {
  if (peer < 0)
    return; // a rank at the end of a line has no peer
  node.set_type(isSend ? proto::COMM_SEND_NODE : proto::COMM_RECV_NODE);
  add(node, "comm_src").set_int32_val(isSend ? rank : peer);
  add(node, "comm_dst").set_int32_val(isSend ? peer : rank);
  add(node, "comm_tag").set_int32_val(static_cast<int32_t>(tag));
  add(node, "comm_size").set_int64_val(bytesOf({buffer}));
}

void RankWriter::describe(proto::Node &node, const rt::TraceEvent &event) {
  const rt::OpVariant &op = event.instruction->op;
  auto message = [&](const auto &sent, bool isSend) {
    const rt::Group &group = plan.groups[static_cast<size_t>(sent.group)];
    describeMessage(
        node, rt::peerOf(group, sent, rank), sent.buffer,
        rt::messageTag(sent.tag, plan.mesh, event.entry->microBatch), isSend);
  };
  if (const auto *reduce = std::get_if<rt::AllReduceOp>(&op))
    describeCollective(node, op, proto::ALL_REDUCE, bytesOf(reduce->buffers));
  else if (const auto *gather = std::get_if<rt::AllGatherOp>(&op))
    describeCollective(node, op, proto::ALL_GATHER, bytesOf(gather->ins));
  else if (const auto *scatter = std::get_if<rt::ReduceScatterOp>(&op))
    describeCollective(node, op, proto::REDUCE_SCATTER, bytesOf(scatter->ins));
  else if (const auto *exchange = std::get_if<rt::AllToAllOp>(&op))
    describeCollective(node, op, proto::ALL_TO_ALL, bytesOf({exchange->in}));
  else if (const auto *broadcast = std::get_if<rt::BroadcastOp>(&op))
    describeCollective(node, op, proto::BROADCAST,
                       bytesOf({broadcast->buffer}));
  else if (const auto *tiles = std::get_if<rt::ExpertTilesOp>(&op);
           tiles && tiles->group >= 0)
    describeCollective(node, op, proto::ALL_TO_ALL, exchangedBytes(*tiles));
  else if (const auto *send = std::get_if<rt::SendOp>(&op))
    message(*send, /*isSend=*/true);
  else if (const auto *recv = std::get_if<rt::RecvOp>(&op))
    message(*recv, /*isSend=*/false);
  else if (const auto *move = std::get_if<rt::TransferOp>(&op)) {
    const rt::Buffer &from = plan.buffers[static_cast<size_t>(move->in)];
    node.set_type(from.space == rt::Space::Device ? proto::MEM_STORE_NODE
                                                  : proto::MEM_LOAD_NODE);
    add(node, "tensor_size").set_uint64_val(static_cast<uint64_t>(from.bytes));
  } else {
    add(node, "num_ops").set_int64_val(std::llround(event.instruction->flops));
  }
}

proto::Node RankWriter::nodeOf(const rt::TraceEvent &event, uint64_t id) {
  const rt::Instruction &instruction = *event.instruction;
  proto::Node node;
  node.set_id(id);
  std::string name = event.entry->phase + " " +
                     std::to_string(event.entry->microBatch) + " " +
                     std::string(rt::opName(instruction.op));
  node.set_name(instruction.name.empty() ? name
                                         : name + " " + instruction.name);
  node.set_type(proto::COMP_NODE);
  int64_t begin = std::llround(event.begin * 1e6);
  node.set_start_time_micros(static_cast<uint64_t>(begin));
  node.set_duration_micros(
      static_cast<uint64_t>(std::llround(event.end * 1e6) - begin));
  add(node, "is_cpu_op").set_bool_val(false);
  describe(node, event);
  int64_t &before = last[static_cast<size_t>(instruction.queue)];
  if (before >= 0)
    node.add_ctrl_deps(static_cast<uint64_t>(before));
  for (int waited : instruction.waits)
    if (auto it = signalled.find(waited); it != signalled.end())
      node.add_data_deps(it->second);
  before = static_cast<int64_t>(id);
  if (instruction.signals >= 0)
    signalled[instruction.signals] = id;
  return node;
}

std::string RankWriter::write(const rt::TraceLane *lanes) {
  std::ostringstream stream;
  proto::GlobalMetadata head;
  head.set_version("1.0.0");
  google::protobuf::util::SerializeDelimitedToOstream(head, &stream);
  // The node that signals an event must precede all nodes that wait for it.
  std::array<size_t, rt::kNumQueues> next{};
  uint64_t id = 0;
  for (const rt::ScheduleEntry &entry :
       plan.schedule[static_cast<size_t>(rank)])
    for (const rt::Instruction &instruction : plan.phases.at(entry.phase)) {
      auto queue = static_cast<size_t>(instruction.queue);
      const rt::TraceEvent &event = lanes[queue].events[next[queue]++];
      google::protobuf::util::SerializeDelimitedToOstream(nodeOf(event, id++),
                                                          &stream);
    }
  return stream.str();
}

Exported writeChakra(const rt::Plan &plan,
                     const std::vector<rt::TraceLane> &lanes) {
  std::map<std::vector<int>, std::string> groups;
  Exported result;
  for (size_t i = 0; i < lanes.size(); i += rt::kNumQueues) {
    int rank = lanes[i].rank;
    result.files.push_back({"chakra." + std::to_string(rank) + ".et",
                            RankWriter(plan, rank, groups).write(&lanes[i])});
  }
  nlohmann::ordered_json names = nlohmann::ordered_json::object();
  for (const auto &[ranks, name] : groups)
    names[name] = ranks;
  result.files.push_back({"chakra-groups.json", names.dump() + "\n"});
  return result;
}

} // namespace dpc::exports
