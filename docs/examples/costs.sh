#!/usr/bin/env bash
# Changes a GGUF model in every way that docs/commands/trace.md has a row of, and prints what each change cost on the prompts.
#
#     docs/examples/costs.sh MODEL.gguf FOLDER QUANTISED.gguf PROMPTS.jsonl
#
# FOLDER: the same weights as BF16 safetensors, for the copies with noise. QUANTISED: the donor of grafts. Writes models into the
# current folder. Needs vindex and a python3 with numpy.
set -euo pipefail
model=$1 folder=$2 quantised=$3 prompts=$4
here=$(dirname "$0")

purify() { vindex -q organ purify "$model" -o "$1.gguf" --method "${@:2}"; }
delete() { vindex -q edit delete "$model" -o "$1.gguf" --tensor blk.3.ffn_down_shexp.weight --direction "${@:2}"; }
graft() { vindex -q organ graft --target "$model" -o "$1.gguf" --type organ --source "${@:2}" > graft.txt; }
cost() {  # a row: name, model
    vindex -q trace "$model" --ids "$prompts" --against "$2" --json | python3 -c '
import json, sys
print("{:20}{loss:7.3f}  {difference:+.3f} +- {difference_se:.3f} {kl:8.4f} {same_first_choice:7.1%}".format(
    sys.argv[1], **json.load(sys.stdin)["against"]))' "$1"
}

purify gate-svd-shrink svd-shrink
purify gate-fft fft
for method in fft haar laser svd-gd svd-shrink haar-bayes haar-visu fft-universal; do
    purify $method $method --accept-findings
done
purify laser-half laser --rho 0.5 --accept-findings
delete down-singular-0 singular 0
delete down-singular-1 singular 1
delete down-feature-12 feature 12 --side left
graft graft-quantised "$quantised"
graft graft-2-to-3 "$model" --map 2:3
for share in 0.2236 0.3222 0.589 0.95; do
    python3 "$here/noised_copy.py" "$folder" noise-$share $share
done

echo "                       loss   change             KL    same"
cost itself "$model"
for name in gate-svd-shrink gate-fft fft laser-half haar laser svd-gd svd-shrink haar-bayes haar-visu fft-universal \
    down-feature-12 down-singular-1 down-singular-0 graft-quantised graft-2-to-3; do
    cost $name $name.gguf
done
for share in 0.2236 0.3222 0.589 0.95; do
    cost noise-$share noise-$share
done
