//===- Main.h - dpc-opt ------------------------------------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_OPT_MAIN_H
#define DPC_TOOLS_DPC_OPT_MAIN_H

namespace dpc {

int dpcOptMain(int argc, char **argv);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_MAIN_H
