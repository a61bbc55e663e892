//===- PlanTarget.cpp - The software for which a plan is made -------------===//
#include "tools/driver/PlanTarget.h"

#include <algorithm>

namespace dpc {

const exports::Target *targetOf(const CompileOptions &options) {
  return exports::findTarget(options.plansFor);
}

static bool isOwn(const std::string &software) {
  return software == "dpc" || software == "dpc-cuda";
}

std::string whyNoProfile(const cost::Cluster &cluster,
                         const std::string &software,
                         const std::string &precision) {
  if (precision == "fp32")
    return "its software profile, " + software +
           ", is of 16-bit training; --precision=bf16 and fp16 are accepted";
  for (const cost::NodeGroup &group : cluster.groups)
    if (!group.device.hasFusedAttention())
      return "its software profile, " + software +
             ", is of GPUs with fused attention, for which device " +
             group.device.name +
             " has no rates; a cluster.json with GPUs such as h100-sxm-80gb is "
             "accepted";
  return "";
}

std::string useTarget(const CompileOptions &options, cost::Cluster &cluster,
                      std::vector<std::string> &remarks) {
  const exports::Target *target = targetOf(options);
  if (!target)
    return "";
  std::string software(target->software), option = "--for=" + options.plansFor;
  if (std::string why = whyNoProfile(cluster, software, options.precision);
      !why.empty())
    return option + ": " + why;
  auto profile = cost::loadSoftware(software);
  if (!profile)
    return option + ": " + profile.message();
  const std::string &named = cluster.software.name;
  if (!isOwn(named) && named != software)
    remarks.push_back(option + ": the profile " + software +
                      " replaces \"software\": \"" + named + "\" of " +
                      options.cluster);
  cluster.setSoftware(*profile);
  return "";
}

Accepts acceptedBy(const exports::Target &target, const exports::Job &job) {
  return [job, rules = target.rules()](const cost::Strategy &strategy) {
    return exports::isExpressible(job, strategy, rules);
  };
}

std::string whyNeverExpressible(const exports::Target &target,
                                const exports::Job &job) {
  for (const exports::Rule &rule : target.rules())
    if (rule.isOfJob && !rule.holds(job))
      return rule.text;
  return "";
}

std::string softwareLine(const CompileOptions &options,
                         const cost::Cluster &cluster) {
  const std::string line = "times and memory are those of ",
                    &software = cluster.software.name;
  const exports::Target *target = targetOf(options);
  if (!target && isOwn(software))
    return line + "dpc's own runtime";
  if (!target) { // "software" in the cluster.json
    for (const exports::Target *each : exports::trainingTargets())
      if (each->isFitted && each->software == software)
        target = each;
    if (!target)
      return line + "the software profile " + software;
  }
  std::string product(target->product);
  if (target->isFitted)
    return line + product + " (" + software + ")";
  return line + product + ", by a similar profile (" + software + ")";
}

} // namespace dpc
