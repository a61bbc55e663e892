# How lit runs the tests of this folder.
#
# Tools are found through PATH: the build's dpc-opt and dpc-run, LLVM's FileCheck,
# not and split-file. `--param dpc_opt=TOOL` puts another mlir-opt-like tool in
# dpc-opt's place.
import os

import lit.formats

config.name = "dpc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["fixtures", "unit", "support", "Inputs"]
config.test_source_root = os.path.join(config.dpc_source, "test")
config.test_exec_root = os.path.join(config.dpc_build, "test", "lit")

path = [os.path.join(config.dpc_build, "bin"), config.llvm_bin,
        config.environment["PATH"]]
replacement = lit_config.params.get("dpc_opt")
if replacement:
    mapped = os.path.join(config.test_exec_root, "mapped")
    os.makedirs(mapped, exist_ok=True)
    link = os.path.join(mapped, "dpc-opt")
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(os.path.abspath(replacement), link)
    path.insert(0, mapped)
config.environment["PATH"] = os.pathsep.join(path)

config.substitutions.append(("%python", config.dpc_python))
config.substitutions.append(("%source", config.dpc_source))

if config.has_mpi:
    config.available_features.add("mpi")
if os.environ.get("DPC_TEST_LONG") == "1":
    config.available_features.add("long")
    config.environment["DPC_TEST_LONG"] = "1"
