//===- Software.cpp - Software profiles -----------------------------------===//

#include "cost-model/machine/Software.h"
#include "cost-model/machine/DataFolder.h"

#include "runtime/base/Json.h"

namespace dpc::cost {

using nlohmann::json;

namespace {

/// Reads optional entries {"value": .., "source": string}.
class EntryReader {
public:
  EntryReader(JsonFields &fields, JsonErrors &errors)
      : fields(fields), errors(errors) {}

  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0) {
    read(key,
         [&](JsonFields &entry) { entry.number("value", out, range, scale); });
  }

  void flag(const std::string &key, bool &out) {
    read(key, [&](JsonFields &entry) {
      entry.required("value", "true or false");
      entry.optionalBoolean("value", out);
    });
  }

  void text(const std::string &key, std::string &out) {
    read(key, [&](JsonFields &entry) { entry.string("value", out); });
  }

private:
  JsonFields &fields;
  JsonErrors &errors;

  template <typename ReadValue>
  void read(const std::string &key, ReadValue readValue) {
    const json *entry = fields.optional(key);
    if (!entry)
      return;
    JsonFields inner(*entry, fields.path(key), errors);
    std::string source;
    readValue(inner);
    inner.string("source", source);
    inner.finish();
  }
};

} // namespace

static void readAttention(const std::string &text, const std::string &where,
                          AttentionKernels &attention, JsonErrors &errors) {
  if (text == "planned")
    attention = AttentionKernels::Planned;
  else if (text == "unfused")
    attention = AttentionKernels::Unfused;
  else if (text == "fused")
    attention = AttentionKernels::Fused;
  else if (text == "cudnn")
    attention = AttentionKernels::Cudnn;
  else
    errors.report(where, "value \"" + text + "\"",
                  "one of planned unfused fused cudnn");
}

static void readCheckpoints(const std::string &text, const std::string &where,
                            Checkpoints &checkpoints, JsonErrors &errors) {
  if (text == "planned")
    checkpoints = Checkpoints::Planned;
  else if (text == "layers")
    checkpoints = Checkpoints::Layers;
  else if (text == "whole-layers")
    checkpoints = Checkpoints::WholeLayers;
  else
    errors.report(where, "value \"" + text + "\"",
                  "one of planned layers whole-layers");
}

Expected<Software> parseSoftware(const json &root, const std::string &where) {
  constexpr double micro = 1e-6, milli = 1e-3;
  JsonErrors errors;
  Software software;
  int64_t version = 0;
  std::string attention = "planned", checkpoints = "planned";
  JsonFields fields(root, where, errors);
  EntryReader reader(fields, errors);
  fields.integer("version", version, 1, 1);
  fields.string("name", software.name);
  reader.text("attention", attention);
  reader.flag("attention_dropout", software.attentionDropout);
  reader.number("attention_rate", software.attentionRate, fraction);
  reader.number("product_rate", software.productRate, fraction);
  reader.number("traffic", software.traffic, atLeastOne);
  reader.number("accumulation_bytes", software.accumulationBytes, nonNegative);
  reader.flag("narrow_activations", software.narrowActivations);
  reader.number("host_kernel_microseconds", software.hostKernelSeconds,
                nonNegative, micro);
  reader.number("host_step_milliseconds", software.hostStepSeconds, nonNegative,
                milli);
  reader.number("collective_start_microseconds",
                software.collectiveStartSeconds, nonNegative, micro);
  reader.number("data_bandwidth", software.dataBandwidth, fraction);
  reader.flag("overlap", software.overlap);
  reader.number("overlap_slowdown", software.overlapSlowdown, nonNegative);
  reader.flag("scattered_messages", software.scatteredMessages);
  reader.flag("equal_stages", software.equalStages);
  reader.text("checkpoints", checkpoints);
  software.keepsMemory = fields.has("reserved_gibibytes");
  if (software.keepsMemory) {
    reader.number("gradient_bytes_f16", software.gradientBytesF16, nonNegative);
    reader.number("gradient_bytes_bf16", software.gradientBytesBF16,
                  nonNegative);
    reader.number("update_bytes_f16", software.updateBytesF16, nonNegative);
    reader.number("update_bytes_bf16", software.updateBytesBF16, nonNegative);
    reader.number("logit_bytes", software.logitBytes, nonNegative);
    reader.number("activation_slack", software.activationSlack, atLeastOne);
    reader.number("reserved_gibibytes", software.reservedBytes, nonNegative,
                  1024.0 * 1024.0 * 1024.0);
  }
  fields.finish();
  if (!errors)
    readAttention(attention, fields.path("attention") + ".value",
                  software.attention, errors);
  if (!errors)
    readCheckpoints(checkpoints, fields.path("checkpoints") + ".value",
                    software.checkpoints, errors);
  if (errors)
    return Error{errors.status().message()};
  return software;
}

static constexpr const char *ownName = "dpc";
static constexpr DataFolder profiles{"software", "DPC_SOFTWARE_DIR",
                                     DPC_SOFTWARE_DIR, ownName};

std::vector<std::string> knownSoftware() { return profiles.names(); }

Expected<Software> loadSoftware(const std::string &name) {
  if (name == ownName)
    return Software();
  auto file = profiles.read(name);
  if (!file)
    return Error{file.message()};
  return parseSoftware(file->second, file->first);
}

} // namespace dpc::cost
