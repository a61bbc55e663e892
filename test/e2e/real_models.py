#!/usr/bin/env python3
"""Published models give the results of PyTorch and onnxruntime (--long only: installs gigabytes).

usage: real_models.py [NAME ...]

There are two kinds: files in Python packages (PP-OCR, silero VAD, magika), compared with onnxruntime; and modules of
torchvision, transformers and diffusers with random weights, exported by torch in three ways (TorchScript and dynamo to
.onnx, torch.export to .pt2), compared with the module itself. Each runs on one rank, and modules also run on two ranks
with tp=2. examples/train_huggingface.py must train like PyTorch. The Python environment is in $DPC_REAL_MODELS_VENV, or
beside the tools.
"""
import os
import subprocess
import sys

import e2e

PACKAGES = ("torch", "torchvision", "transformers", "diffusers", "onnx", "onnxscript", "onnxruntime", "numpy", "pillow", "safetensors", "accelerate")
# Packages that contain model files. Nothing else in them is used.
SHIPPED = ("rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "magika==1.0.3")


def environment():
    """Returns the Python with the packages; creates it if it does not exist."""
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
