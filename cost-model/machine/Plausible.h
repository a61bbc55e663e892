//===- Plausible.h - Numbers with the wrong unit ----------------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"

namespace dpc::cost {

/// Returns one line for each number of a cluster.json that no known hardware
/// has: its key, its value, what is usual, and the unit that the user may have
/// meant. Numbers that are 0 (unknown) are left out.
std::vector<std::string> implausibleNumbers(const Cluster &cluster);

/// Returns one line for each level between nodes and the cluster that the
/// devices do not fill evenly, such as 512 devices in domains of 72. Groups of
/// ranks then cross domains. The line names the even span.
std::vector<std::string> partialDomains(const Cluster &cluster);

} // namespace dpc::cost
