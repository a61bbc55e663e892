//===- StopSignal.h - asked to leave ----------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_STOPSIGNAL_H
#define DPC_RUNTIME_JOB_STOPSIGNAL_H

namespace dpc {

/// From now on SIGTERM and SIGINT do not end the process but are remembered; a
/// second one ends it. So is SIGUSR1: to save and leave, as one who goes on
/// later with other ranks asks.
void catchStopSignals();

/// The signal that came, or 0.
int stopSignal();

} // namespace dpc

#endif // DPC_RUNTIME_JOB_STOPSIGNAL_H
