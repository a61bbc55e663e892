//===- Spinning.h - How long threads of a product spin ----------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_SPINNING_H
#define DPC_TOOLS_CLI_SPINNING_H

namespace dpc {

/// Threads of a product wait for each other by spinning, 300,000 rounds unless
/// told otherwise. That wastes milliseconds per product as soon as another
/// process wants the core. Starts this program a second time: libgomp reads the
/// number while it is loaded. Does nothing where the environment gives one.
void limitSpinning(char **argv);

} // namespace dpc

#endif // DPC_TOOLS_CLI_SPINNING_H
