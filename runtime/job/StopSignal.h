//===- StopSignal.h - signals that end a run --------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_STOPSIGNAL_H
#define DPC_RUNTIME_JOB_STOPSIGNAL_H

namespace dpc {

/// From now on the first SIGTERM or SIGINT is recorded instead of ending the
/// process; a second one ends it. SIGUSR1 is recorded, too: it asks a run to
/// save and leave, because it will resume later with a different number of
/// ranks.
void catchStopSignals();

/// The recorded signal, or 0.
int stopSignal();

} // namespace dpc

#endif // DPC_RUNTIME_JOB_STOPSIGNAL_H
