#!/usr/bin/env python3
"""Do models that others made give what PyTorch and onnxruntime give? (--long only: installs gigabytes)

usage: real_models.py [NAME ...]

Two kinds: files as they are shipped in Python packages (PP-OCR, silero VAD, magika), against onnxruntime; and modules
of torchvision, transformers and diffusers with random weights, exported by torch in three ways (TorchScript and
dynamo to .onnx, torch.export to .pt2), against the module itself. Each runs on one rank, and the modules on two ranks
by tp=2 as well. examples/train_huggingface.py must train as PyTorch does. The Python environment is made in $DPC_REAL_MODELS_VENV, or beside the tools.
"""
import os
import subprocess
import sys

import e2e

PACKAGES = ("torch", "torchvision", "transformers", "diffusers", "onnx", "onnxscript", "onnxruntime", "numpy", "pillow", "safetensors", "accelerate")
# Of these the files alone are needed.
SHIPPED = ("rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "magika==1.0.3")


def environment():
    """The Python that has the packages; makes it when it is not there."""
    folder = os.environ.get("DPC_REAL_MODELS_VENV") or os.path.join(os.path.dirname(e2e.BIN), "real-models")
    python = os.path.join(folder, "bin", "python")
    complete = os.path.join(folder, "complete")
    if not os.path.exists(complete):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        subprocess.run([*pip, "--no-deps", "--target", os.path.join(folder, "shipped"), *SHIPPED], check=True)
        open(complete, "w").close()
    return folder, python


def main():
    if not os.environ.get("DPC_TEST_LONG"):
        print("needs gigabytes of packages: runs with --long")
        sys.exit(e2e.SKIPPED)
    folder, python = environment()
    cases = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real_models_cases.py")
    done = subprocess.run([python, cases, "--tools", e2e.BIN, "--shipped", os.path.join(folder, "shipped"), *sys.argv[1:]])
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
