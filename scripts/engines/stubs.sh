#!/usr/bin/env bash
# Makes torch usable without the GPU libraries that it links to: stubs of the same names whose functions
# return an error, so that there is no GPU. For an environment that is thrown away.
#   stubs.sh SITE_PACKAGES      (needs gcc and binutils)
set -euo pipefail
site=$1
lib=$site/torch/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries='^lib(cu|nccl|nv|cupti)'
names='^(cu[A-Z]|cuda|cublas|cudnn|cufft|cusparse|curand|cusolver|nccl|nvrtc|cufile|nvshmem|nvJitLink|cupti)'
# Which version nodes each library is expected to have, which names each node, and names without one.
for file in "$lib"/*.so; do
  readelf -VW "$file" | awk '/File: /{for(i=1;i<=NF;i++) if($i=="File:") lib=$(i+1)}
    /Name: /{for(i=1;i<=NF;i++) if($i=="Name:") print lib, $(i+1)}'
done | sort -u | grep -E "$libraries" > "$work/nodes"
for file in "$lib"/*.so; do nm -D --undefined-only "$file" | awk '{print $2}'; done | sort -u > "$work/undefined"
grep @ "$work/undefined" | sed 's/@@*/ /' > "$work/versioned"
grep -v @ "$work/undefined" | grep -E "$names" > "$work/plain"
for file in "$lib"/*.so; do readelf -dW "$file" | grep NEEDED | grep -oE '\[.*\]' | tr -d '[]'; done |
  sort -u | grep -E '^lib(cu|nccl|nv)' > "$work/needed"
rm -rf "$site"/nvidia "$site"/triton "$site"/triton-*.dist-info
while read -r library; do
  echo "int stub_unused_$(echo "$library" | tr -c 'a-zA-Z0-9\n' _)(void){return 0;}" > "$work/stub.c"
  : > "$work/stub.map"
  awk -v l="$library" '$1==l{print $2}' "$work/nodes" | sort -u > "$work/its-nodes"
  while read -r node; do
    echo "$node { global:" >> "$work/stub.map"
    awk -v n="$node" '$2==n{print $1}' "$work/versioned" | sort -u | while read -r name; do
      echo "int $name(void){return 100;}" >> "$work/stub.c"
      echo "  $name;" >> "$work/stub.map"
    done
    echo "};" >> "$work/stub.map"
  done < "$work/its-nodes"
  [ -s "$work/its-nodes" ] || while read -r name; do
    echo "int $name(void){return 100;}" >> "$work/stub.c"
  done < "$work/plain"
  map=()
  [ -s "$work/stub.map" ] && map=("-Wl,--version-script=$work/stub.map")
  gcc -w -fno-builtin -shared -fPIC -Wl,-soname,"$library" "${map[@]}" -o "$lib/$library" "$work/stub.c"
done < "$work/needed"
